"""Requests signed as the API's user role (SigV4, service `execute-api`)."""

import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

import botocore.session
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import BotoCoreError, ClientError

from cluster_resource.api import ApiAccessError

_SESSION_SECONDS = 900  # the shortest that STS gives: a leaked one is soon worthless
_REFRESH_BEFORE_SECONDS = 120
_HOST = re.compile(r"https://[a-z0-9-]+\.execute-api\.([a-z0-9-]+)\.")


class Signer(Protocol):
    def headers(self, method: str, url: str, body: bytes | None) -> dict[str, str]: ...

    def renew(self) -> None:
        """Forget the credentials at hand: they were refused."""


class TokenService(Protocol):
    """The one call that is made of the STS client."""

    def assume_role(self, *, RoleArn: str, RoleSessionName: str, DurationSeconds: int) -> Any: ...  # noqa: N803, ANN401


class RoleSigner:
    """Signs with short-lived credentials of a role, renewed before they expire."""

    def __init__(
        self, role_arn: str, session_name: str, region: str, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._role_arn = role_arn
        self._session_name = session_name
        self._region = region
        self._clock = clock
        self._credentials: Credentials | None = None
        self._expires = 0.0

    def headers(self, method: str, url: str, body: bytes | None) -> dict[str, str]:
        """The headers of a signed request.

        Raises:
            ApiAccessError: the role cannot be assumed.
        """
        request = AWSRequest(method=method, url=url, data=body, headers=_plain_headers(body))
        SigV4Auth(self._current(), "execute-api", self._region).add_auth(request)
        return dict(request.headers.items())

    def renew(self) -> None:
        self._credentials = None

    def _current(self) -> Credentials:
        if self._credentials is None or self._clock() > self._expires - _REFRESH_BEFORE_SECONDS:
            self._credentials, self._expires = self._assume()
        return self._credentials

    def _assume(self) -> tuple[Credentials, float]:
        client = _token_service()
        try:
            given = client.assume_role(
                RoleArn=self._role_arn, RoleSessionName=self._session_name, DurationSeconds=_SESSION_SECONDS
            )["Credentials"]
        except (ClientError, BotoCoreError) as error:
            raise ApiAccessError(f"the role {self._role_arn} cannot be assumed: {error}") from error
        credentials = Credentials(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])
        return credentials, given["Expiration"].timestamp()


def _token_service() -> TokenService:
    timeouts = Config(connect_timeout=5, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 4})
    return cast("TokenService", botocore.session.get_session().create_client("sts", config=timeouts))


def session_name(cluster_name: str) -> str:
    """The name under which CloudTrail shows the calls, at most 64 characters."""
    return f"trainyard-{cluster_name}"[:64]


def signing_region(api_url: str, default: str) -> str:
    """The region of an API Gateway URL; `default` for any other host."""
    match = _HOST.match(api_url)
    return match.group(1) if match else default


def _plain_headers(body: bytes | None) -> Mapping[str, str]:
    return {"Content-Type": "application/json"} if body is not None else {}

"""The ParallelCluster API over HTTP, with requests signed as the API's user role (SigV4, service `execute-api`).

Reads are retried. A call that changes something is retried only if it was certainly not carried out (throttled, or not
connected); otherwise it raises `ApiUnknownError`, and the caller describes the cluster first. Bodies are never logged.
"""

import json
import logging
import random
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol
from urllib.parse import quote, urlencode

import botocore.session
import urllib3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import BotoCoreError, ClientError

from cluster_resource.api import (
    Accepted,
    ApiAccessError,
    ApiError,
    ApiUnknownError,
    ClusterView,
    StackEvent,
    error_of,
    messages_of,
    view_of,
)

_LOG = logging.getLogger(__name__)
_ATTEMPTS = 4
_EVENT_PAGES = 20
_INSTANCE_PAGES = 20
# API Gateway times out after 29 s.
_TIMEOUT = urllib3.Timeout(connect=5.0, read=35.0)
_VALIDATION_LEVEL = "ERROR"
_STARTS = ("CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS")
_NEVER_SENT = (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError)
_SESSION_SECONDS = 900  # the minimum of STS
_REFRESH_BEFORE_SECONDS = 120
_HOST = re.compile(r"https://[a-z0-9-]+\.execute-api\.([a-z0-9-]+)\.")


class Signer(Protocol):
    def headers(self, method: str, url: str, body: bytes | None) -> dict[str, str]: ...

    def renew(self) -> None:
        """Drop the current credentials: the API refused them."""


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
        headers = {"Content-Type": "application/json"} if body is not None else {}
        request = AWSRequest(method=method, url=url, data=body, headers=headers)
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


def _token_service() -> Any:  # noqa: ANN401 - botocore's
    timeouts = Config(connect_timeout=5, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 4})
    return botocore.session.get_session().create_client("sts", config=timeouts)


def session_name(cluster_name: str) -> str:
    """The session name in CloudTrail, at most 64 characters."""
    return f"trainyard-{cluster_name}"[:64]


def signing_region(api_url: str, default: str) -> str:
    """The region of an API Gateway URL; `default` for any other host."""
    match = _HOST.match(api_url)
    return match.group(1) if match else default


class HttpClusterApi:
    """`ClusterApi` of one region behind one API Gateway stage."""

    def __init__(
        self,
        url: str,
        region: str,
        signer: Signer,
        *,
        http: urllib3.PoolManager | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._url = url.rstrip("/")
        self._region = region
        self._signer = signer
        self._http = http or urllib3.PoolManager()
        self._sleep = sleep

    def describe(self, name: str) -> ClusterView | None:
        try:
            body = self._call("GET", _path(name))
        except ApiError as error:
            if error.http_status == 404:
                return None
            raise
        view = view_of(body)
        return None if view.status == "DELETE_COMPLETE" else view

    def create(self, name: str, configuration: str, *, dry_run: bool = False) -> Accepted:
        options = {"validationFailureLevel": _VALIDATION_LEVEL, "rollbackOnFailure": "true"}
        options |= {"dryrun": "true"} if dry_run else {}
        body = {"clusterName": name, "clusterConfiguration": configuration}
        return _accepted(self._call("POST", "/v3/clusters", options, body))

    def update(self, name: str, configuration: str, *, dry_run: bool = False) -> Accepted:
        options = {"validationFailureLevel": _VALIDATION_LEVEL, **({"dryrun": "true"} if dry_run else {})}
        return _accepted(self._call("PUT", _path(name), options, {"clusterConfiguration": configuration}))

    def delete(self, name: str) -> None:
        self._call("DELETE", _path(name))

    def fleet(self, name: str) -> str:
        return str(self._call("GET", _path(name, "computefleet")).get("status") or "UNKNOWN")

    def request_fleet(self, name: str, *, running: bool) -> None:
        status = "START_REQUESTED" if running else "STOP_REQUESTED"
        self._call("PATCH", _path(name, "computefleet"), body={"status": status})

    def compute_nodes(self, name: str) -> int:
        count, token = 0, None
        for _ in range(_INSTANCE_PAGES):
            options = {"nodeType": "ComputeNode", **({"nextToken": token} if token else {})}
            page = self._call("GET", _path(name, "instances"), options)
            count += len(page.get("instances") or [])
            token = page.get("nextToken")
            if not token:
                break
        return count

    def api_version(self, os: str) -> str | None:
        images = self._call("GET", "/v3/images/official", {"os": os} if os else None).get("images") or []
        return str(images[0].get("version") or "") or None if images else None

    def stack_events(self, name: str) -> tuple[StackEvent, ...]:
        events: list[StackEvent] = []
        token: str | None = None
        for _ in range(_EVENT_PAGES):
            page = self._call("GET", _path(name, "stackevents"), {"nextToken": token} if token else None)
            for item in page.get("events") or []:
                event = _event(item)
                events.append(event)
                if event.physical_id == event.stack_id and event.status in _STARTS:
                    return tuple(events)
            token = page.get("nextToken")
            if not token:
                break
        return tuple(events)

    def log_group(self, name: str) -> str | None:
        streams = self._call("GET", _path(name, "logstreams")).get("logStreams") or []
        for stream in streams:
            _, found, rest = str(stream.get("logStreamArn", "")).partition(":log-group:")
            if found:
                return rest.partition(":")[0]
        return None

    def _call(
        self,
        method: str,
        path: str,
        options: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        query = urlencode(sorted({"region": self._region, **(options or {})}.items()), quote_via=quote)
        url = f"{self._url}{path}?{query}"
        data = json.dumps(body, ensure_ascii=False).encode() if body is not None else None
        what = f"{method} {path}"
        renewed = False
        attempt = 1
        while True:
            try:
                answer = self._http.request(
                    method,
                    url,
                    body=data,
                    headers=self._signer.headers(method, url, data),
                    timeout=_TIMEOUT,
                    retries=False,
                    redirect=False,
                )
            except urllib3.exceptions.HTTPError as error:
                trouble = f"{what}: {type(error).__name__}"
                again = method == "GET" or isinstance(error, _NEVER_SENT)
            else:
                content = _json(answer.data)
                _LOG.info("%s: HTTP %d", what, answer.status)
                if answer.status < 300:
                    return content
                failure = error_of(answer.status, content)
                if answer.status in (401, 403):
                    if renewed or "expired" not in failure.message.lower():
                        raise ApiAccessError(f"{what} was refused: {failure}")
                    self._signer.renew()
                    renewed = True
                    continue
                if answer.status < 500 and answer.status != 429:
                    raise failure
                trouble = f"{what}: {failure}"
                again = method == "GET" or answer.status == 429
                if attempt == _ATTEMPTS and answer.status == 429:
                    raise failure
            if not again or attempt == _ATTEMPTS:
                raise ApiUnknownError(trouble)
            _LOG.warning("%s; attempt %d of %d", trouble, attempt, _ATTEMPTS)
            self._sleep(random.uniform(0.5, 1.0) * 2 ** (attempt - 1))  # noqa: S311 - jitter
            attempt += 1


def _path(name: str, part: str = "") -> str:
    path = f"/v3/clusters/{quote(name, safe='')}"
    return f"{path}/{part}" if part else path


def _json(data: bytes) -> dict[str, Any]:
    """The body; API Gateway's own errors (a 504, say) need not be JSON objects."""
    try:
        content = json.loads(data or b"{}")
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _accepted(body: Mapping[str, Any]) -> Accepted:
    cluster = body.get("cluster") or {}
    return Accepted(version=str(cluster.get("version") or ""), messages=messages_of(body.get("validationMessages")))


def _event(item: Mapping[str, str]) -> StackEvent:
    return StackEvent(
        timestamp=item.get("timestamp", ""),
        stack_id=item.get("stackId", ""),
        logical_id=item.get("logicalResourceId", ""),
        physical_id=item.get("physicalResourceId", ""),
        type=item.get("resourceType", ""),
        status=item.get("resourceStatus", ""),
        reason=item.get("resourceStatusReason", ""),
    )

"""The ParallelCluster API over HTTP, with requests signed as the API's user role (SigV4, service `execute-api`).

Reads are retried. A call that changes something is retried only if it was certainly not carried out (throttled, or not
connected); otherwise it raises `ApiUnknownError`, and the caller describes the cluster first. Bodies are never logged.
"""

import json
import logging
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

import urllib3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
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
    latest_operation,
    messages_of,
    view_of,
)
from cluster_resource.aws import new_client

_LOG = logging.getLogger(__name__)
_ATTEMPTS = 4
_PAGES = 20
# API Gateway times out after 29 s.
_TIMEOUT = urllib3.Timeout(connect=5.0, read=35.0)
_NEVER_SENT = (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError)
_SESSION_NAME_CHARACTERS = 64  # STS's limit
_SESSION_SECONDS = 900  # the minimum of STS
_REFRESH_BEFORE_SECONDS = 120
_HOST = re.compile(r"https://[a-z0-9-]+\.execute-api\.([a-z0-9-]+)\.")


class RoleSigner:
    """Signs with short-lived credentials of a role, renewed before they expire.

    Args:
        cluster_name: part of the session name in CloudTrail.
        region: for an `api_url` that is not of API Gateway and so names no region.
    """

    def __init__(
        self, role_arn: str, cluster_name: str, api_url: str, region: str, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._role_arn = role_arn
        self._session_name = f"trainyard-{cluster_name}"[:_SESSION_NAME_CHARACTERS]
        host = _HOST.match(api_url)
        self._region = host.group(1) if host else region
        self._clock = clock
        self._credentials: Credentials | None = None
        self._expires = 0.0

    def headers(self, method: str, url: str, body: bytes | None) -> dict[str, str]:
        """The headers of a signed request.

        Raises:
            ApiAccessError: the role cannot be assumed.
        """
        if self._credentials is None or self._clock() > self._expires - _REFRESH_BEFORE_SECONDS:
            self._credentials = self._assume_role()
        headers = {"Content-Type": "application/json"} if body is not None else {}
        request = AWSRequest(method=method, url=url, data=body, headers=headers)
        SigV4Auth(self._credentials, "execute-api", self._region).add_auth(request)
        return dict(request.headers.items())

    def renew(self) -> None:
        """Drop the current credentials: the API refused them."""
        self._credentials = None

    def _assume_role(self) -> Credentials:
        try:
            given = new_client("sts").assume_role(
                RoleArn=self._role_arn, RoleSessionName=self._session_name, DurationSeconds=_SESSION_SECONDS
            )["Credentials"]
        except (ClientError, BotoCoreError) as error:
            raise ApiAccessError(f"the role {self._role_arn} cannot be assumed: {error}") from error
        self._expires = given["Expiration"].timestamp()
        return Credentials(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])


class HttpClusterApi:
    """`ClusterApi` of one region behind one API Gateway stage."""

    def __init__(
        self, url: str, region: str, signer: RoleSigner, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._url = url.rstrip("/")
        self._region = region
        self._signer = signer
        self._http = urllib3.PoolManager()
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
        body = {"clusterName": name, "clusterConfiguration": configuration}
        return self._send("POST", "/v3/clusters", body, dry_run=dry_run, rollbackOnFailure="true")

    def update(self, name: str, configuration: str, *, dry_run: bool = False) -> Accepted:
        return self._send("PUT", _path(name), {"clusterConfiguration": configuration}, dry_run=dry_run)

    def delete(self, name: str) -> None:
        self._call("DELETE", _path(name))

    def fleet(self, name: str) -> str:
        return str(self._call("GET", _path(name, "computefleet")).get("status") or "UNKNOWN")

    def request_fleet(self, name: str, *, running: bool) -> None:
        status = "START_REQUESTED" if running else "STOP_REQUESTED"
        self._call("PATCH", _path(name, "computefleet"), body={"status": status})

    def compute_nodes(self, name: str) -> int:
        pages = self._pages(_path(name, "instances"), nodeType="ComputeNode")
        return sum(len(page.get("instances") or []) for page in pages)

    def api_version(self, os: str) -> str | None:
        images = self._call("GET", "/v3/images/official", {"os": os} if os else None).get("images") or []
        return str(images[0].get("version") or "") or None if images else None

    def stack_events(self, name: str) -> tuple[StackEvent, ...]:
        pages = self._pages(_path(name, "stackevents"))
        return latest_operation(event for page in pages for event in page.get("events") or [])

    def log_group(self, name: str) -> str | None:
        streams = self._call("GET", _path(name, "logstreams")).get("logStreams") or []
        arn = str(streams[0].get("logStreamArn", "")) if streams else ""
        return arn.partition(":log-group:")[2].partition(":")[0] or None

    def _send(self, method: str, path: str, body: Mapping[str, str], *, dry_run: bool, **options: str) -> Accepted:
        options |= {"validationFailureLevel": "ERROR", **({"dryrun": "true"} if dry_run else {})}
        answer = self._call(method, path, options, body)
        version = str((answer.get("cluster") or {}).get("version") or "")
        return Accepted(version, messages_of(answer.get("validationMessages")))

    def _pages(self, path: str, **options: str) -> Iterator[dict[str, Any]]:
        for _ in range(_PAGES):
            page = self._call("GET", path, options)
            yield page
            if not page.get("nextToken"):
                return
            options["nextToken"] = page["nextToken"]

    def _call(
        self, method: str, path: str, options: Mapping[str, str] | None = None, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        query = urlencode(sorted({"region": self._region, **(options or {})}.items()), quote_via=quote)
        url = f"{self._url}{path}?{query}"
        data = json.dumps(body, ensure_ascii=False).encode() if body is not None else None
        what = f"{method} {path}"
        attempt = 0
        while True:
            attempt += 1
            headers = self._signer.headers(method, url, data)
            try:
                answer = self._http.request(
                    method, url, body=data, headers=headers, timeout=_TIMEOUT, retries=False, redirect=False
                )
            except urllib3.exceptions.HTTPError as error:
                trouble = f"{what}: {type(error).__name__}"
                again = method == "GET" or isinstance(error, _NEVER_SENT)
            else:
                content = json_object(answer.data)
                _LOG.info("%s: HTTP %d", what, answer.status)
                if answer.status < 300:
                    return content
                failure, throttled = error_of(answer.status, content), answer.status == 429
                if answer.status in (401, 403):
                    self._signer.renew()  # the credentials may have expired; the next call assumes the role again
                    raise ApiAccessError(f"{what} was refused: {failure}")
                if answer.status < 500 and not (throttled and attempt < _ATTEMPTS):
                    raise failure
                trouble = f"{what}: {failure}"
                again = method == "GET" or throttled
            if not again or attempt == _ATTEMPTS:
                raise ApiUnknownError(trouble)
            _LOG.warning("%s; attempt %d of %d", trouble, attempt, _ATTEMPTS)
            self._sleep(random.uniform(0.5, 1.0) * 2 ** (attempt - 1))  # noqa: S311 - jitter


def _path(name: str, part: str = "") -> str:
    path = f"/v3/clusters/{quote(name, safe='')}"
    return f"{path}/{part}" if part else path


def json_object(data: bytes | None) -> dict[str, Any]:
    """The body; API Gateway's own errors (a 504, say) need not be JSON objects."""
    try:
        content = json.loads(data or b"{}")
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}

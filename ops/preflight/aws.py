"""Read access to AWS. A missing permission raises `Denied`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from ops.preflight.permissions import action_of

_CONFIG = Config(connect_timeout=10, read_timeout=30, retries={"mode": "standard", "total_max_attempts": 8})
_DENIED = (
    "AccessDenied",
    "AccessDeniedException",
    "AuthorizationError",
    "Client.UnauthorizedOperation",
    "UnauthorizedOperation",
)


class Denied(Exception):
    """A permission is missing: `action`."""

    def __init__(self, action: str) -> None:
        super().__init__(f"{action} is not allowed")
        self.action = action


class Reader(Protocol):
    """Calls with boto3's service and method names and arguments.

    Both methods raise Denied if the permission is missing, and botocore's ClientError for every other error.
    """

    def call(self, service: str, operation: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - boto3's
        """The response of one call."""

    def items(self, service: str, operation: str, key: str, **arguments: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401
        """The items under `key` of the response, from all pages."""


class Aws:
    """`Reader` with boto3, in one region."""

    def __init__(self, session: boto3.Session, region: str) -> None:
        self._session = session
        self._region = region
        self._clients: dict[str, Any] = {}

    def _client(self, service: str) -> Any:  # noqa: ANN401 - boto3's
        if service not in self._clients:
            untyped: Any = self._session
            self._clients[service] = untyped.client(service, region_name=self._region, config=_CONFIG)
        return self._clients[service]

    def call(self, service: str, operation: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401
        try:
            answer: dict[str, Any] = getattr(self._client(service), operation)(**arguments)
        except ClientError as error:
            raise _judged(error, service, operation) from error
        return answer

    def items(self, service: str, operation: str, key: str, **arguments: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401
        client = self._client(service)
        if not client.can_paginate(operation):
            yield from self.call(service, operation, **arguments).get(key, [])
            return
        try:
            for page in client.get_paginator(operation).paginate(**arguments):
                yield from page.get(key, [])
        except ClientError as error:
            raise _judged(error, service, operation) from error


def code_of(error: ClientError) -> str:
    """The error code of an AWS error."""
    return str(error.response.get("Error", {}).get("Code", ""))


def _judged(error: ClientError, service: str, operation: str) -> Exception:
    # HeadBucket has no body, so its code is only the status (403), which also means a bucket of another account.
    return Denied(action_of(service, operation)) if code_of(error) in _DENIED else error

"""Read access to AWS with the credentials of the shell. A missing permission raises `Denied`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from ops.problem import Problem
from settings import Environment
from settings.regions import partition

_CONFIG = Config(connect_timeout=10, read_timeout=30, retries={"mode": "standard", "total_max_attempts": 8})
_DENIED = ("AccessDenied", "AccessDeniedException", "AuthorizationError", "UnauthorizedOperation")
_PREFIXES = {"service-quotas": "servicequotas", "sso-admin": "sso"}
"""Of IAM actions, where they differ from the name of the client."""
_HOMES = {"chatbot": "us-east-2"}
"""Regions of services that have endpoints in few regions and answer there for all (AWS General Reference)."""
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_NOT_ENABLED = ("InvalidClientTokenId", "UnrecognizedClientException", "AuthFailure")


class Denied(Problem):
    """The caller lacks a permission: `action`."""

    def __init__(self, action: str) -> None:
        super().__init__(f"{action} is not allowed")
        self.action = action


class Aws:
    """Calls in one region, with boto3's service and method names and arguments.

    Both methods raise Denied if the permission is missing, and botocore's ClientError for every other error.
    """

    def __init__(self, session: boto3.Session, region: str) -> None:
        self._session = session
        self._region = region
        self._clients: dict[str, Any] = {}

    def call(self, service: str, operation: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - boto3's
        """The response of one call."""
        try:
            answer: dict[str, Any] = getattr(self._client(service), operation)(**arguments)
        except ClientError as error:
            raise _judged(error, service, operation) from error
        return answer

    def items(self, service: str, operation: str, key: str, **arguments: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401
        """The items under `key` of the responses, from all pages."""
        try:
            for page in self._client(service).get_paginator(operation).paginate(**arguments):
                yield from page.get(key, [])
        except ClientError as error:
            raise _judged(error, service, operation) from error

    @property
    def emulated(self) -> bool:
        """Whether the emulated AWS answers."""
        return emulated(self._client("sts"))

    def _client(self, service: str) -> Any:  # noqa: ANN401 - boto3's
        if service not in self._clients:
            untyped: Any = self._session
            region = _HOMES.get(service, self._region)
            self._clients[service] = untyped.client(service, region_name=region, config=_CONFIG)
        return self._clients[service]


def require_account(aws: Aws, environment: Environment) -> None:
    """Return if the credentials belong to the file's account and are valid in its region.

    Raises:
        Problem: there are no credentials, AWS refuses them, or they belong to another account or partition.
    """
    try:
        caller = aws.call("sts", "get_caller_identity")
    except BotoCoreError as error:
        raise Problem(
            f"AWS cannot be reached: {error}.\nTrainyard uses the credentials of your shell, as the AWS CLI does. "
            f"Set a profile or keys of account {environment.account}. To see them: aws sts get-caller-identity"
        ) from error
    except (ClientError, Denied) as error:
        hint = (
            f"They are wrong or expired, or {environment.region} is not enabled in the account."
            if isinstance(error, ClientError) and code_of(error) in _NOT_ENABLED
            else "They are expired or not valid."
        )
        raise Problem(f"AWS refuses your credentials: {error}.\n{hint}") from error
    if caller["Account"] != environment.account:
        raise Problem(
            f"Your credentials belong to account {caller['Account']}; the environment {environment.name} is in account "
            f"{environment.account}.\nUse credentials of that account, or correct `account` in the file."
        )
    given, wanted = str(caller["Arn"]).split(":")[1], partition(environment.region)
    if given != wanted:
        raise Problem(
            f"Your credentials belong to the partition {given}; {environment.region} is in {wanted}.\n"
            "Use credentials of that partition, or correct `region` in the file."
        )


def emulated(client: Any) -> bool:  # noqa: ANN401 - boto3's
    """Whether its endpoint is on this machine; also true for `--on aws` in a pipeline of `trainyard promote`."""
    return urlsplit(client.meta.endpoint_url).hostname in _LOOPBACK


def code_of(error: ClientError) -> str:
    """The error code of an AWS error."""
    return str(error.response.get("Error", {}).get("Code", ""))


def action_of(service: str, operation: str) -> str:
    """The IAM action of a call, `ec2:DescribeVpcs` for boto3's service `ec2` and its method `describe_vpcs`."""
    name = re.sub(r"(^|_)([a-z])", lambda found: found[2].upper(), operation).replace("Aws", "AWS").replace("Db", "DB")
    action = f"{_PREFIXES.get(service, service)}:{name}"
    return "s3:ListBucket" if action == "s3:HeadBucket" else action


def _judged(error: ClientError, service: str, operation: str) -> Exception:
    # HeadBucket has no body, so its code is only the status (403), which also means a bucket of another account.
    return Denied(action_of(service, operation)) if code_of(error) in _DENIED else error

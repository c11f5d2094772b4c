"""Sessions of the pipeline's roles: each action acts as CodePipeline would act, so that IAM judges every call."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore.exceptions import ClientError

from local.emulator.launch import Emulator
from local.pipeline.problem import ActionFailed
from local.steering import Steer, SteeringRefused

CODEPIPELINE = "codepipeline.amazonaws.com"
CODEBUILD = "codebuild.amazonaws.com"
_SESSION_NAME = re.compile(r"[^\w+=,.@-]")


@dataclass(frozen=True)
class Session:
    """Credentials of a role, and a way to clients that use them."""

    role_arn: str
    key: str
    secret: str
    token: str
    region: str
    endpoint: str

    @property
    def account(self) -> str:
        """The account of the role."""
        return self.role_arn.split(":")[4]

    def client(self, service: str, region: str = "") -> Any:  # noqa: ANN401 - boto3's clients are made at run time
        """A boto3 client with these credentials."""
        with _MAKING:
            session = boto3.Session(
                aws_access_key_id=self.key,
                aws_secret_access_key=self.secret,
                aws_session_token=self.token or None,
                region_name=region or self.region,
            )
            return session.client(service, endpoint_url=self.endpoint)  # type: ignore[call-overload]

    def environment(self) -> dict[str, str]:
        """Variables that give a child process these credentials."""
        return {
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_SESSION_TOKEN": self.token,
        }


_MAKING = threading.Lock()
"""boto3 makes sessions and clients in one thread at a time only."""


@dataclass
class Roles:
    """The roles of one world, from the account in which the pipeline lives."""

    world: Emulator
    _services: dict[tuple[str, str], Session] = field(default_factory=dict)

    def root(self, account: str = "") -> Session:
        """The account's own key; the pipeline's account where none is named."""
        owner = account or self.world.account
        return Session(f"arn:aws:iam::{owner}:root", owner, "local", "", self.world.region, self.world.endpoint)

    def of_service(self, role_arn: str, service: str, source_arn: str) -> Session:
        """A role that a service takes on.

        Args:
            role_arn: the role.
            service: the service's principal.
            source_arn: the resource for which the service acts, which trust policies may name.

        Raises:
            ActionFailed: its trust policy does not let it.
        """
        if (role_arn, service) not in self._services:
            try:
                given = Steer(self.world).session(role_arn, service, source_arn)
            except SteeringRefused as refused:
                raise ActionFailed(str(refused)) from refused
            self._services[role_arn, service] = Session(
                role_arn, given["key"], given["secret"], given["token"], self.world.region, self.world.endpoint
            )
        return self._services[role_arn, service]

    def assume(self, caller: Session, role_arn: str, name: str) -> Session:
        """A role taken on by another one.

        Raises:
            ActionFailed: the caller may not, or the role does not trust it.
        """
        try:
            given = caller.client("sts").assume_role(
                RoleArn=role_arn, RoleSessionName=_SESSION_NAME.sub("-", name)[:64].ljust(2, "-")
            )["Credentials"]
        except ClientError as error:
            raise ActionFailed(f"{caller.role_arn} cannot assume {role_arn}: {error}") from error
        return Session(
            role_arn,
            given["AccessKeyId"],
            given["SecretAccessKey"],
            given["SessionToken"],
            self.world.region,
            self.world.endpoint,
        )

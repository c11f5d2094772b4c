"""The base of all stacks of an environment."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from settings.model import Environment
from settings.stacks import ENVIRONMENT_TAG, stack_name
from trainyard.retention import FunctionLogs


class EnvironmentStack(cdk.Stack):
    """A stack in the account and region of `environment`, with its name, description and tags.

    Args:
        part: the stack's part of the environment, for example `network`; also its id.
        holds: its content, for the description.
        termination_protection: refuse its deletion until the protection is removed.
    """

    def __init__(
        self,
        scope: Construct,
        part: str,
        *,
        environment: Environment,
        holds: str,
        termination_protection: bool | None = None,
    ) -> None:
        boundary = environment.cluster.permissions_boundary
        super().__init__(
            scope,
            part,
            permissions_boundary=cdk.PermissionsBoundary.from_arn(boundary) if boundary else None,
            env=cdk.Environment(account=environment.account, region=environment.region),
            stack_name=stack_name(environment, part),
            description=f"Trainyard {environment.name}: {holds}",
            termination_protection=termination_protection,
            # CloudFormation copies stack tags to the stack's resources.
            tags={**environment.tags, ENVIRONMENT_TAG: environment.name},
        )
        self.keeps_logs = environment.retention.logs == "keep"
        self.function_logs = FunctionLogs(environment.cluster.monitoring.log_days, self.keeps_logs)

    def add_placeholder(self) -> None:
        """Give an empty stack a resource that costs nothing, without which CloudFormation refuses its template.

        The stack is not left out: a deployed one would stay as it is with what the file no longer has, and a pipeline
        would have no stage for its removal.
        """
        cdk.CfnWaitConditionHandle(self, "Empty")

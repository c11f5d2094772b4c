"""The base of all stacks of an environment."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from settings.model import Environment
from settings.stacks import ENVIRONMENT_TAG, stack_name


class EnvironmentStack(cdk.Stack):
    """A stack in the account and region of `environment`, with its name, description and tags."""

    def __init__(
        self,
        scope: Construct,
        part: str,
        *,
        environment: Environment,
        holds: str,
        termination_protection: bool | None = None,
    ) -> None:
        """
        Args:
            scope: an app or a stage.
            part: the stack's part of the environment, for example `network`; also its id.
            environment: the environment.
            holds: its content, for the description.
            termination_protection: refuse its deletion until the protection is removed.
        """
        super().__init__(
            scope,
            part,
            env=cdk.Environment(account=environment.account, region=environment.region),
            stack_name=stack_name(environment, part),
            description=f"Trainyard {environment.name}: {holds}",
            termination_protection=termination_protection,
        )
        # CloudFormation copies stack tags to the stack's resources.
        for key, value in {**environment.tags, ENVIRONMENT_TAG: environment.name}.items():
            self.add_stack_tag(key, value)

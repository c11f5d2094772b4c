"""What every stack of an environment has in common."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from settings.model import Environment
from settings.stacks import ENVIRONMENT_TAG, stack_name


class EnvironmentStack(cdk.Stack):
    """A stack of `environment`: its account and region, name, description, and tags on all that is made there."""

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
            holds: what is in it, for its description.
            termination_protection: refuse its deletion until the protection is taken off.
        """
        super().__init__(
            scope,
            part,
            env=cdk.Environment(account=environment.account, region=environment.region),
            stack_name=stack_name(environment, part),
            description=f"Trainyard {environment.name}: {holds}",
            termination_protection=termination_protection,
        )
        # Stack tags: CloudFormation puts them on all that it makes there.
        for key, value in {**environment.tags, ENVIRONMENT_TAG: environment.name}.items():
            self.add_stack_tag(key, value)

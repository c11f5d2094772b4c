"""The stack of an environment that lets a pipeline look at it, and validate it."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from settings.model import Environment
from settings.pipeline.model import Pipeline
from trainyard.cluster_config.tags import ENVIRONMENT_TAG
from trainyard.pipeline.access import PromotionAccess


class PromotionStack(cdk.Stack):
    """Roles alone. The first deployment is by hand, since preflight and diff come before a stage's deployment."""

    access: PromotionAccess

    def __init__(self, scope: Construct, construct_id: str, *, pipeline: Pipeline, environment: Environment) -> None:
        super().__init__(
            scope,
            construct_id,
            env=cdk.Environment(account=environment.account, region=environment.region),
            stack_name=f"{environment.name}-{construct_id}",
            description=f"Trainyard {environment.name}: roles of the pipeline {pipeline.name}",
        )
        for key, value in {**environment.tags, ENVIRONMENT_TAG: environment.name}.items():
            self.add_stack_tag(key, value)
        self.access = PromotionAccess(self, "Access", pipeline=pipeline, environment=environment)

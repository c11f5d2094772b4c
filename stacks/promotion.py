"""The stack with the roles of a pipeline in the account of an environment."""

from __future__ import annotations

from constructs import Construct

from settings.model import Environment
from settings.pipeline.model import Pipeline
from stacks.environment_stack import EnvironmentStack
from trainyard.pipeline.access import GitHubAccess, PromotionAccess


class PromotionStack(EnvironmentStack):
    """Roles only. Deploy it by hand first: preflight and diff run before a stage's deployment."""

    def __init__(self, scope: Construct, *, pipeline: Pipeline, environment: Environment) -> None:
        holds = f"roles of the pipeline {pipeline.name}"
        super().__init__(scope, "promotion", environment=environment, holds=holds)
        if pipeline.source is not None:
            PromotionAccess(self, "Access", pipeline=pipeline, environment=environment)
        if pipeline.github is not None:
            GitHubAccess(self, "GitHub", github=pipeline.github, environment=environment)

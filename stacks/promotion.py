"""The stack with the roles of a pipeline in the account of an environment."""

from __future__ import annotations

from constructs import Construct

from settings.model import Environment
from settings.pipeline.model import Pipeline
from stacks.environment_stack import EnvironmentStack
from trainyard.pipeline.access import PromotionAccess
from trainyard.pipeline.github import GitHubAccess


class PromotionStack(EnvironmentStack):
    """Roles only. Deploy it by hand first: preflight and diff run before a stage's deployment."""

    access: PromotionAccess | None
    github: GitHubAccess | None

    def __init__(self, scope: Construct, *, pipeline: Pipeline, environment: Environment) -> None:
        super().__init__(
            scope,
            "promotion",
            environment=environment,
            holds=f"roles of the pipeline {pipeline.name}",
        )
        self.access = None
        if pipeline.source is not None:
            self.access = PromotionAccess(self, "Access", pipeline=pipeline, environment=environment)
        self.github = None
        if pipeline.github is not None:
            self.github = GitHubAccess(self, "GitHub", github=pipeline.github, environment=environment)

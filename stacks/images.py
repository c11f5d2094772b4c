"""The image stack of an environment."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Environment as CdkEnvironment
from aws_cdk import Stack
from aws_cdk import aws_ecr as ecr
from constructs import Construct

from settings.model import Environment
from trainyard.images import ImageRepositories


class ImagesStack(Stack):
    """The ECR repositories, by name."""

    repositories: Mapping[str, ecr.IRepository]

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: Environment,
        env: CdkEnvironment | None = None,
        stack_name: str | None = None,
        description: str | None = None,
        termination_protection: bool | None = None,
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            env=env,
            stack_name=stack_name,
            description=description,
            termination_protection=termination_protection,
        )
        self.repositories = ImageRepositories(
            self,
            "Images",
            images=environment.images,
            kept=environment.retention.images == "keep",
        ).repositories

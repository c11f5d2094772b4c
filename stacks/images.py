"""The image stack of an environment."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import CfnOutput, Stack
from aws_cdk import Environment as CdkEnvironment
from aws_cdk import aws_ecr as ecr
from constructs import Construct

from settings.model import Environment
from trainyard.image_build import ImageBuild
from trainyard.images import ImageRepositories


class ImagesStack(Stack):
    """The ECR repositories, by name, and the build of the training image where the environment asks for one."""

    repositories: Mapping[str, ecr.IRepository]
    build: ImageBuild | None

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
        self.build = None
        if (build := environment.images.build) is not None:
            self.build = ImageBuild(
                self,
                "Build",
                build=build,
                repository=self.repositories[build.repository],
                region=environment.region,
                logs_kept=environment.retention.logs == "keep",
            )
            output = CfnOutput(
                self,
                "StartImageBuild",
                value=self.build.start_command,
                description="Builds the training image and pushes it",
            )
            output.override_logical_id("StartImageBuild")

"""The image stack of an environment."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import CfnOutput
from aws_cdk import aws_ecr as ecr
from constructs import Construct

from settings.model import Environment
from stacks.environment_stack import EnvironmentStack
from trainyard.images import ImageRepositories


class ImagesStack(EnvironmentStack):
    """The ECR repositories, by name, and the build of the training image if the environment has one."""

    repositories: Mapping[str, ecr.IRepository]

    def __init__(self, scope: Construct, *, environment: Environment) -> None:
        kept = environment.retention.images == "keep"
        super().__init__(
            scope, "images", environment=environment, holds="ECR repositories", termination_protection=kept
        )
        self.repositories = ImageRepositories(
            self, "Images", images=environment.images, name_of=environment.repository_name, kept=kept
        ).repositories
        if not self.repositories:
            self.add_placeholder()
        if (build := environment.images.build) is not None:
            # Not at the top: few environments have a build, and CodeBuild's module takes time to import.
            from trainyard.image_build import ImageBuild

            made = ImageBuild(
                self,
                "Build",
                build=build,
                repository=self.repositories[build.repository],
                region=environment.region,
                logs_kept=self.keeps_logs,
            )
            output = CfnOutput(
                self,
                "StartImageBuild",
                value=made.start_command,
                description="Builds the training image and pushes it",
            )
            output.override_logical_id("StartImageBuild")

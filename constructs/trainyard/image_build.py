"""The build of the training image in AWS: no Docker build of 30 GB on a laptop."""

from __future__ import annotations

from pathlib import Path

from aws_cdk import Aws, Stack
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3_assets as s3_assets
from aws_cdk import aws_scheduler as scheduler
from aws_cdk.region_info import RegionInfo
from constructs import Construct

from settings.model.images import Build
from trainyard.nag import acknowledge
from trainyard.retention import log_group

CONTEXT = Path(__file__).resolve().parents[2] / "container"
# For regions whose account of Deep Learning Containers the CDK does not know; the images are the same.
PUBLIC_BASE = "public.ecr.aws/deep-learning-containers"
BASE_REPOSITORY = "pytorch"
_COMPUTE = {
    "medium": "BUILD_GENERAL1_MEDIUM",
    "large": "BUILD_GENERAL1_LARGE",
    "x-large": "BUILD_GENERAL1_XLARGE",
    "2x-large": "BUILD_GENERAL1_2XLARGE",
}
# Amazon Linux 2023 with Docker; CodeBuild keeps the patches of a major version.
_BUILD_IMAGE = "aws/codebuild/amazonlinux-x86_64-standard:5.0"
_QUEUED_MINUTES = 60


class ImageBuild(Construct):
    """A CodeBuild project that builds the folder container/ and pushes the image to one repository.

    The folder is an asset named by its content, so a diff shows changes. A deployment starts no build: `start_command`
    does, and the schedule if the settings have one.

    Attributes:
        project: the project.
        role: may read the asset, write the log, pull the base image and push to the one repository.
        start_command: the AWS CLI's command that starts a build.
    """

    project: codebuild.CfnProject
    role: iam.Role
    start_command: str

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        build: Build,
        repository: ecr.IRepository,
        region: str,
        logs_kept: bool,
        context: Path = CONTEXT,
    ) -> None:
        """Make the project.

        Args:
            build: the settings.
            repository: where the image is pushed.
            region: the deployment's region, which determines the account of the base images.
            logs_kept: keep the log group when the stack is deleted.
            context: folder with a Dockerfile and a buildspec.yml.
        """
        super().__init__(scope, construct_id)
        source = s3_assets.Asset(self, "Context", path=str(context), exclude=["**/__pycache__", "**/.*"])
        log = log_group(self, "LogGroup", days=build.log_days, kept=logs_kept)
        base_account = RegionInfo.get(region).dlc_repository_account
        self.role = self._role(source, log, repository, base_account)
        self.project = self._project(build, source, log, repository, _base(region, base_account))
        self.start_command = f"aws codebuild start-build --region {region} --project-name {self.project.ref}"
        if build.every_days is not None:
            self._schedule(build.every_days)

    def _role(
        self,
        source: s3_assets.Asset,
        log: logs.LogGroup,
        repository: ecr.IRepository,
        base_account: str | None,
    ) -> iam.Role:
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal(
                "codebuild.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self).account}}
            ),
            description="Builds the training image and pushes it to its repository",
        )
        pull = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
        push = ["ecr:CompleteLayerUpload", "ecr:InitiateLayerUpload", "ecr:PutImage", "ecr:UploadLayerPart"]
        statements = [
            iam.PolicyStatement(sid="Login", actions=["ecr:GetAuthorizationToken"], resources=["*"]),
            # Existing layers are not pushed again, and serve as the build's cache.
            iam.PolicyStatement(sid="Push", actions=[*pull, *push], resources=[repository.repository_arn]),
            iam.PolicyStatement(
                sid="Context",
                actions=["s3:GetObject", "s3:GetObjectVersion"],
                resources=[source.bucket.arn_for_objects(source.s3_object_key)],
            ),
            iam.PolicyStatement(
                sid="Log",
                actions=["logs:CreateLogStream", "logs:PutLogEvents"],
                resources=[log.log_group_arn],
            ),
        ]
        if base_account is not None:
            base = Stack.of(self).format_arn(
                service="ecr", account=base_account, resource="repository", resource_name=BASE_REPOSITORY
            )
            statements.append(iam.PolicyStatement(sid="Base", actions=pull, resources=[base]))
        policy = iam.Policy(self, "Policy", roles=[role], statements=statements)
        acknowledge(
            policy,
            "AwsSolutions-IAM5[Resource::*]",
            "ecr:GetAuthorizationToken knows no resources; pull and push are limited to one repository each.",
        )
        return role

    def _project(
        self,
        build: Build,
        source: s3_assets.Asset,
        log: logs.LogGroup,
        repository: ecr.IRepository,
        base: str,
    ) -> codebuild.CfnProject:
        variables = {
            "BASE_REGISTRY": base,
            "IMAGE_REPOSITORY": repository.repository_uri,
            "IMAGE_TAG": build.tag,
        }
        project = codebuild.CfnProject(
            self,
            "Project",
            description="Builds the training image from container/ and pushes it",
            service_role=self.role.role_arn,
            source=codebuild.CfnProject.SourceProperty(
                type="S3", location=f"{source.s3_bucket_name}/{source.s3_object_key}", build_spec="buildspec.yml"
            ),
            artifacts=codebuild.CfnProject.ArtifactsProperty(type="NO_ARTIFACTS"),
            environment=codebuild.CfnProject.EnvironmentProperty(
                type="LINUX_CONTAINER",
                image=_BUILD_IMAGE,
                compute_type=_COMPUTE[build.compute],
                privileged_mode=True,
                environment_variables=[
                    codebuild.CfnProject.EnvironmentVariableProperty(name=name, value=value)
                    for name, value in variables.items()
                ],
            ),
            logs_config=codebuild.CfnProject.LogsConfigProperty(
                cloud_watch_logs=codebuild.CfnProject.CloudWatchLogsConfigProperty(
                    status="ENABLED", group_name=log.log_group_name
                )
            ),
            # AWS's key for S3: the project stores nothing, and ECR encrypts the image.
            encryption_key=f"arn:{Aws.PARTITION}:kms:{Aws.REGION}:{Aws.ACCOUNT_ID}:alias/aws/s3",
            timeout_in_minutes=build.timeout_minutes,
            queued_timeout_in_minutes=_QUEUED_MINUTES,
            # Two builds at once would race for the tag.
            concurrent_build_limit=1,
        )
        acknowledge(
            project,
            "AwsSolutions-CB3",
            "`docker build` needs its daemon, which needs privileges in the build's own disposable container.",
        )
        # A build that starts right after the deployment needs the policy.
        project.node.add_dependency(self.node.find_child("Policy"))
        return project

    def _schedule(self, days: int) -> None:
        role = iam.Role(
            self,
            "SchedulerRole",
            assumed_by=iam.ServicePrincipal(
                "scheduler.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self).account}}
            ),
            description="Starts builds of the training image",
        )
        role.add_to_policy(iam.PolicyStatement(actions=["codebuild:StartBuild"], resources=[self.project.attr_arn]))
        scheduler.CfnSchedule(
            self,
            "Schedule",
            description="Builds the training image",
            schedule_expression="rate(1 day)" if days == 1 else f"rate({days} days)",
            flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(
                mode="FLEXIBLE", maximum_window_in_minutes=60
            ),
            target=scheduler.CfnSchedule.TargetProperty(
                arn=f"arn:{Aws.PARTITION}:scheduler:::aws-sdk:codebuild:startBuild",
                role_arn=role.role_arn,
                input=Stack.of(self).to_json_string({"ProjectName": self.project.ref}),
            ),
        )


def _base(region: str, account: str | None) -> str:
    """The registry of the base image: AWS's own in the region, or the public one."""
    if account is None:
        return PUBLIC_BASE
    return f"{account}.dkr.ecr.{region}.{Aws.URL_SUFFIX}"

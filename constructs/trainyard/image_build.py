"""The build of the training image in AWS: no Docker build of 30 GB on a laptop."""

from __future__ import annotations

from pathlib import Path

from aws_cdk import Aws, Stack
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3_assets as s3_assets
from aws_cdk import aws_scheduler as scheduler
from aws_cdk.region_info import RegionInfo
from constructs import Construct

from settings.model.images import Build
from trainyard.nag import ANY_RESOURCE, acknowledge
from trainyard.principals import own_service
from trainyard.retention import log_group

CONTEXT = Path(__file__).resolve().parents[2] / "container"
# For regions whose account of Deep Learning Containers the CDK does not know; the images are the same.
_PUBLIC_BASE = "public.ecr.aws/deep-learning-containers"
_COMPUTE = {
    "medium": "BUILD_GENERAL1_MEDIUM",
    "large": "BUILD_GENERAL1_LARGE",
    "x-large": "BUILD_GENERAL1_XLARGE",
    "2x-large": "BUILD_GENERAL1_2XLARGE",
}


class ImageBuild(Construct):
    """A CodeBuild project that builds the folder container/ and pushes the image to one repository.

    The folder is an asset named by its content, so a diff shows changes. A deployment starts no build: `start_command`,
    the AWS CLI's command, does, and the schedule if the settings have one.

    Args:
        build: the settings.
        repository: where the image is pushed.
        region: the deployment's region, which determines the account of the base images.
        logs_kept: keep the log group when the stack is deleted.
    """

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
    ) -> None:
        super().__init__(scope, construct_id)
        self._source = s3_assets.Asset(self, "Context", path=str(CONTEXT), exclude=["**/__pycache__", "**/.*"])
        self._log = log_group(self, "LogGroup", days=build.log_days, kept=logs_kept)
        self._repository = repository
        base_account = RegionInfo.get(region).dlc_repository_account
        role = self._role(base_account)
        base = f"{base_account}.dkr.ecr.{region}.{Aws.URL_SUFFIX}" if base_account else _PUBLIC_BASE
        self._project = self._build(build, role, base)
        self.start_command = f"aws codebuild start-build --region {region} --project-name {self._project.ref}"
        if build.every_days is not None:
            self._schedule(build.every_days)

    def _role(self, base_account: str | None) -> iam.Role:
        role = iam.Role(
            self,
            "Role",
            assumed_by=own_service(self, "codebuild.amazonaws.com"),
            description="Builds the training image and pushes it to its repository",
        )
        pull = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
        push = ["ecr:CompleteLayerUpload", "ecr:InitiateLayerUpload", "ecr:PutImage", "ecr:UploadLayerPart"]
        context = self._source.bucket.arn_for_objects(self._source.s3_object_key)
        statements = [
            iam.PolicyStatement(sid="Login", actions=["ecr:GetAuthorizationToken"], resources=["*"]),
            # Existing layers are not pushed again, and serve as the build's cache.
            iam.PolicyStatement(sid="Push", actions=[*pull, *push], resources=[self._repository.repository_arn]),
            iam.PolicyStatement(sid="Context", actions=["s3:GetObject", "s3:GetObjectVersion"], resources=[context]),
            # CodeBuild asks whose the bucket is, and where (its guide, "Allow CodeBuild to interact with other AWS
            # services", statement S3BucketIdentity).
            iam.PolicyStatement(
                sid="ContextBucket",
                actions=["s3:GetBucketAcl", "s3:GetBucketLocation"],
                resources=[self._source.bucket.bucket_arn],
            ),
            iam.PolicyStatement(
                sid="Log",
                actions=["logs:CreateLogStream", "logs:PutLogEvents"],
                resources=[self._log.log_group_arn],
            ),
        ]
        if base_account is not None:
            base = Stack.of(self).format_arn(
                service="ecr", account=base_account, resource="repository", resource_name="pytorch"
            )
            statements.append(iam.PolicyStatement(sid="Base", actions=pull, resources=[base]))
        policy = iam.Policy(self, "Policy", roles=[role], statements=statements)
        reason = "ecr:GetAuthorizationToken takes no ARN; pull and push are limited to one repository each."
        acknowledge(policy, {ANY_RESOURCE: reason})
        return role

    def _build(self, build: Build, role: iam.Role, base: str) -> codebuild.CfnProject:
        variables = {
            "BASE_REGISTRY": base,
            "IMAGE_REPOSITORY": self._repository.repository_uri,
            "IMAGE_TAG": build.tag,
        }
        location = f"{self._source.s3_bucket_name}/{self._source.s3_object_key}"
        types = codebuild.CfnProject
        project = codebuild.CfnProject(
            self,
            "Project",
            description="Builds the training image from container/ and pushes it",
            service_role=role.role_arn,
            source=types.SourceProperty(type="S3", location=location, build_spec="buildspec.yml"),
            artifacts=types.ArtifactsProperty(type="NO_ARTIFACTS"),
            environment=types.EnvironmentProperty(
                type="LINUX_CONTAINER",
                # Amazon Linux 2023 with Docker; CodeBuild keeps the patches of a major version.
                image="aws/codebuild/amazonlinux-x86_64-standard:5.0",
                compute_type=_COMPUTE[build.compute],
                privileged_mode=True,
                environment_variables=[
                    types.EnvironmentVariableProperty(name=name, value=value) for name, value in variables.items()
                ],
            ),
            logs_config=types.LogsConfigProperty(
                cloud_watch_logs=types.CloudWatchLogsConfigProperty(
                    status="ENABLED", group_name=self._log.log_group_name
                )
            ),
            # AWS's key for S3: the project stores nothing, and ECR encrypts the image.
            encryption_key=f"arn:{Aws.PARTITION}:kms:{Aws.REGION}:{Aws.ACCOUNT_ID}:alias/aws/s3",
            timeout_in_minutes=build.timeout_minutes,
            queued_timeout_in_minutes=60,
            # Two builds at once would race for the tag.
            concurrent_build_limit=1,
        )
        reason = "`docker build` needs its daemon, which needs privileges in the build's own disposable container."
        acknowledge(project, {"AwsSolutions-CB3": reason})
        # A build that starts right after the deployment needs the policy.
        project.node.add_dependency(self.node.find_child("Policy"))
        return project

    def _schedule(self, days: int) -> None:
        role = iam.Role(
            self,
            "SchedulerRole",
            assumed_by=own_service(self, "scheduler.amazonaws.com"),
            description="Starts builds of the training image",
        )
        role.add_to_policy(iam.PolicyStatement(actions=["codebuild:StartBuild"], resources=[self._project.attr_arn]))
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
                input=Stack.of(self).to_json_string({"ProjectName": self._project.ref}),
            ),
        )

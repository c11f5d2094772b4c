"""The roles of CodeBuild steps in the pipeline's account."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from settings.model import Environment
from settings.pipeline.model import Pipeline
from trainyard.nag import acknowledge_resource
from trainyard.pipeline.artifacts import Artifacts
from trainyard.pipeline.names import PURPOSES, Purpose, step_role, target_role_arn


class StepRole(Construct):
    """May clone the commit, read artifacts, write its own artifact and the log, and assume `target` if given.

    Only the role of Synth may write the output of Synth, which every stage deploys: another step runs code of the
    commit, and could replace that output after the gates have passed it.

    A role created by the CDK could also delete artifacts and create log groups and test reports.

    Attributes:
        role: for a step; CDK Pipelines cannot add policies to it.
    """

    role: iam.IRole

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        description: str,
        step: str,
        artifacts: Artifacts,
        log_group: logs.ILogGroup,
        connection: str,
        name: str | None = None,
        target: str | None = None,
    ) -> None:
        """
        Args:
            step: name of the step, from which CDK Pipelines derives the name of its output.
            connection: ARN of the connection to the repository.
            name: of the role, if another account must know it.
            target: ARN of the role to assume.
        """
        super().__init__(scope, construct_id)
        role = iam.Role(
            self,
            "Role",
            role_name=name,
            description=description,
            assumed_by=iam.ServicePrincipal(
                "codebuild.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self).account}}
            ),
        )
        objects = artifacts.bucket.arn_for_objects("*")
        own = artifacts.bucket.arn_for_objects(f"*/{f'{step}_Output'[:_FOLDER_CHARACTERS]}*")
        statements = [
            iam.PolicyStatement(sid="Clone", actions=list(USE_CONNECTION), resources=[connection]),
            iam.PolicyStatement(
                sid="Artifacts",
                actions=["s3:GetObject", "s3:GetObjectVersion"],
                resources=[objects],
            ),
            iam.PolicyStatement(sid="Output", actions=["s3:PutObject"], resources=[own]),
            iam.PolicyStatement(
                sid="Bucket",
                actions=["s3:GetBucketAcl", "s3:GetBucketLocation"],
                resources=[artifacts.bucket.bucket_arn],
            ),
            iam.PolicyStatement(
                sid="Key",
                actions=["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey"],
                resources=[artifacts.key.key_arn],
            ),
            iam.PolicyStatement(
                sid="Log",
                actions=["logs:CreateLogStream", "logs:PutLogEvents"],
                resources=[log_group.log_group_arn],
            ),
        ]
        if target is not None:
            statements.append(iam.PolicyStatement(sid="Target", actions=["sts:AssumeRole"], resources=[target]))
        policy = iam.Policy(self, "Policy", roles=[role], statements=statements)
        for resource in (objects, own):
            acknowledge_resource(policy, resource, "CodePipeline names each artifact's object at random.")
        self.role = role.without_policy_updates()


_FOLDER_CHARACTERS = 10
"""CodePipeline truncates an artifact's name in the keys of its objects: `<pipeline>/Synth_Outp/<id>`."""

USE_CONNECTION = ("codeconnections:UseConnection", "codestar-connections:UseConnection")
"""The service was renamed; the required action depends on the connection's ARN and on the caller."""


class EnvironmentRoles(Construct):
    """The roles of one environment's steps, by purpose. Each environment has its own: a step of dev cannot reach prod.

    Attributes:
        roles: by purpose.
    """

    roles: Mapping[Purpose, iam.IRole]

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        pipeline: Pipeline,
        environment: Environment,
        artifacts: Artifacts,
        log_group: logs.ILogGroup,
        connection: str,
    ) -> None:
        super().__init__(scope, construct_id)
        self.roles = {
            purpose: StepRole(
                self,
                purpose.capitalize(),
                description=f"Steps of the pipeline {pipeline.name} for the {purpose} of {environment.name}",
                step=purpose.capitalize(),
                artifacts=artifacts,
                log_group=log_group,
                connection=connection,
                name=step_role(pipeline, environment, purpose),
                target=target_role_arn(environment, purpose),
            ).role
            for purpose in PURPOSES
        }

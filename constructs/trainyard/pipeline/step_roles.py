"""The roles of CodeBuild steps in the pipeline's account."""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from trainyard.nag import acknowledge, wildcard
from trainyard.pipeline.artifacts import Artifacts
from trainyard.principals import own_service

USE_CONNECTION = ("codeconnections:UseConnection", "codestar-connections:UseConnection")
"""The service was renamed; the required action depends on the connection's ARN and on the caller."""


class StepRole(Construct):
    """May clone the commit, read artifacts, write its own artifact and the log, and assume `target` if given.

    Only the role of Synth may write the output of Synth, which every stage deploys: another step runs code of the
    commit, and could replace that output after the gates have passed it.

    A role created by the CDK could also delete artifacts and create log groups and test reports.

    Args:
        step: name of the step, from which CDK Pipelines derives the name of its output.
        connection: ARN of the connection to the repository.
        name: of the role, if another account must know it.
        target: ARN of the role to assume.

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
        super().__init__(scope, construct_id)
        role = iam.Role(
            self,
            "Role",
            role_name=name,
            description=description,
            assumed_by=own_service(self, "codebuild.amazonaws.com"),
        )
        bucket = artifacts.bucket
        objects = bucket.arn_for_objects("*")
        # CodePipeline truncates an artifact's name in the keys of its objects: `<pipeline>/Synth_Outp/<id>`.
        own = bucket.arn_for_objects(f"*/{f'{step}_Output'[:10]}*")
        allowed = {
            "Clone": (USE_CONNECTION, connection),
            "Artifacts": (("s3:GetObject", "s3:GetObjectVersion"), objects),
            "Output": (("s3:PutObject",), own),
            "Bucket": (("s3:GetBucketAcl", "s3:GetBucketLocation"), bucket.bucket_arn),
            "Key": (("kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey"), artifacts.key.key_arn),
            "Log": (("logs:CreateLogStream", "logs:PutLogEvents"), log_group.log_group_arn),
            **({"Target": (("sts:AssumeRole",), target)} if target else {}),
        }
        statements = [
            iam.PolicyStatement(sid=sid, actions=list(actions), resources=[resource])
            for sid, (actions, resource) in allowed.items()
        ]
        policy = iam.Policy(self, "Policy", roles=[role], statements=statements)
        reason = "CodePipeline names each artifact's object at random."
        acknowledge(policy, {wildcard(self, resource): reason for resource in (objects, own)})
        self.role = role.without_policy_updates()

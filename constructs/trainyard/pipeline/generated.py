"""Acknowledged cdk-nag findings on roles that CDK Pipelines creates, and repairs of what it creates."""

from __future__ import annotations

from aws_cdk import Stack, pipelines
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from constructs import IConstruct

from trainyard.nag import acknowledge, acknowledge_resource
from trainyard.pipeline.artifacts import Artifacts
from trainyard.pipeline.step_roles import USE_CONNECTION

_READS = ("s3:GetBucket*", "s3:GetObject*", "s3:List*")
_WRITES = ("s3:Abort*", "s3:DeleteObject*", "kms:GenerateDataKey*", "kms:ReEncrypt*")
_OWN_ARTIFACTS = "CDK's own grant on the artifact bucket and its key, which only this pipeline uses."
_NO_RESOURCE = "The action knows no resources."


def source_may_use(pipeline: pipelines.CodePipeline, connection: str) -> None:
    """Let the source action use the connection by both of the service's names; CDK knows the older one."""
    role = _find(pipeline, "Pipeline", "Source", "Source", "CodePipelineActionRole")
    if not isinstance(role, iam.Role):
        raise TypeError(f"CDK Pipelines gave the source action a {type(role).__name__} for a role.")
    role.add_to_policy(iam.PolicyStatement(actions=list(USE_CONNECTION), resources=[connection]))


def acknowledge_generated(pipeline: pipelines.CodePipeline, artifacts: Artifacts, approver: lambda_.IFunction) -> None:
    """Acknowledge the grants of CDK Pipelines to its own roles. `pipeline` must be built."""
    roles = {
        _find(pipeline, "Pipeline", "Role"): (*_READS, *_WRITES),
        _find(pipeline, "Pipeline", "Source", "Source", "CodePipelineActionRole"): (*_READS, *_WRITES),
        _find(pipeline, "UpdatePipeline", "SelfMutation"): (*_READS, "kms:GenerateDataKey*", "kms:ReEncrypt*"),
        _find(pipeline, "Assets", "FileRole"): _READS,
    }
    for construct, actions in roles.items():
        acknowledge_resource(construct, artifacts.bucket.arn_for_objects("*"), _OWN_ARTIFACTS)
        for action in actions:
            acknowledge(construct, f"AwsSolutions-IAM5[Action::{action}]", _OWN_ARTIFACTS)
    _self_mutation(pipeline)
    _assets(pipeline)
    for construct in pipeline.pipeline.node.find_all():
        name = construct.node.id
        if name.endswith("-ByVerdict"):
            acknowledge(construct, "AwsSolutions-IAM5[Resource::*]", f"lambda:ListFunctions: {_NO_RESOURCE}")
            acknowledge_resource(construct, f"{approver.function_arn}:*", "Versions of this one function.")
        if name.startswith("Approve"):
            acknowledge(
                construct, "AwsSolutions-IAM5[Action::kms:GenerateDataKey*]", "CDK's own grant on the topic's key."
            )


def secure_replication(pipeline: pipelines.CodePipeline) -> None:
    """Enable rotation of the keys that the CDK creates in other regions, and acknowledge findings on their buckets."""
    for support in pipeline.pipeline.cross_region_support.values():
        for construct in support.stack.node.find_all():
            if isinstance(construct, kms.CfnKey):
                construct.enable_key_rotation = True
            if isinstance(construct, s3.CfnBucket):
                acknowledge(
                    construct, "AwsSolutions-S1", "Copies of artifacts, whose reads the bucket that they are of logs."
                )
        role = _find(pipeline, "Pipeline", "Role")
        objects = support.replication_bucket.arn_for_objects("*")
        acknowledge_resource(role, objects, "CDK's own grant on the bucket of copies, which only this pipeline uses.")
        acknowledge(role, "AwsSolutions-IAM5[Resource::*]", "CDK's own: a key of another region is not known by ARN.")


def _self_mutation(pipeline: pipelines.CodePipeline) -> None:
    project = pipeline.self_mutation_project
    _of_build(_find(pipeline, "UpdatePipeline", "SelfMutation"), project.project_name)
    construct = _find(pipeline, "UpdatePipeline", "SelfMutation")
    account = Stack.of(pipeline).account
    acknowledge(
        construct,
        f"AwsSolutions-IAM5[Resource::arn:*:iam::{account}:role/*]",
        "Only roles that carry the tag of the bootstrap's roles, by the statement's condition.",
    )
    acknowledge(
        construct, "AwsSolutions-IAM5[Resource::*]", "CDK's own: reads of stacks and listing of staging buckets."
    )


def _assets(pipeline: pipelines.CodePipeline) -> None:
    construct, stack = _find(pipeline, "Assets", "FileRole"), Stack.of(pipeline)
    for service, resource in (("logs", "log-group:/aws/codebuild/*"), ("codebuild", "report-group/*")):
        acknowledge_resource(
            construct,
            stack.format_arn(service=service, resource=resource),
            "CDK's own: one role for all projects that publish assets, whose names are not known to it.",
        )
    acknowledge(construct, "AwsSolutions-IAM5[Resource::*]", "CDK's own: reads and starts of builds for batches.")


def _of_build(construct: IConstruct, project_name: str) -> None:
    stack = Stack.of(construct)
    for service, resource in (
        ("logs", f"log-group:/aws/codebuild/{project_name}:*"),
        ("codebuild", f"report-group/{project_name}-*"),
    ):
        acknowledge_resource(
            construct,
            stack.format_arn(service=service, resource=resource),
            "CDK's own: streams and reports of this project, named by each build.",
        )


def _find(construct: IConstruct, *path: str) -> IConstruct:
    for name in path:
        construct = construct.node.find_child(name)
    return construct

"""Acknowledged cdk-nag findings on roles that CDK Pipelines creates, and repairs of what it creates."""

from __future__ import annotations

from aws_cdk import Stack, pipelines
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from constructs import IConstruct

from trainyard.nag import ANY_RESOURCE, acknowledge, wildcard
from trainyard.pipeline.artifacts import Artifacts
from trainyard.pipeline.step_roles import USE_CONNECTION

_READS = ("s3:GetBucket*", "s3:GetObject*", "s3:List*")
_ENCRYPTS = ("kms:GenerateDataKey*", "kms:ReEncrypt*")
_WRITES = ("s3:Abort*", "s3:DeleteObject*", *_ENCRYPTS)
_OWN_ARTIFACTS = "CDK's own grant on the artifact bucket and its key, which only this pipeline uses."


def grant_use(pipeline: pipelines.CodePipeline, connection: str) -> None:
    """Let the source action use the connection by both of the service's names; CDK knows the older one."""
    role = _find(pipeline, "Pipeline", "Source", "Source", "CodePipelineActionRole")
    if not isinstance(role, iam.Role):
        raise TypeError(f"CDK Pipelines gave the source action a {type(role).__name__} for a role.")
    role.add_to_policy(iam.PolicyStatement(actions=list(USE_CONNECTION), resources=[connection]))


def acknowledge_roles_of_cdk(
    pipeline: pipelines.CodePipeline, artifacts: Artifacts, approver: lambda_.IFunction
) -> None:
    """Acknowledge the grants of CDK Pipelines to its own roles. `pipeline` must be built."""
    self_mutation, assets = _find(pipeline, "UpdatePipeline", "SelfMutation"), _find(pipeline, "Assets", "FileRole")
    roles = {
        _find(pipeline, "Pipeline", "Role"): (*_READS, *_WRITES),
        _find(pipeline, "Pipeline", "Source", "Source", "CodePipelineActionRole"): (*_READS, *_WRITES),
        self_mutation: (*_READS, *_ENCRYPTS),
        assets: _READS,
    }
    objects = wildcard(pipeline, artifacts.bucket.arn_for_objects("*"))
    for construct, actions in roles.items():
        findings = [objects, *(f"AwsSolutions-IAM5[Action::{action}]" for action in actions)]
        acknowledge(construct, dict.fromkeys(findings, _OWN_ARTIFACTS))

    stack = Stack.of(pipeline)
    project = pipeline.self_mutation_project.project_name
    own = "CDK's own: streams and reports of this project, named by each build."
    any_role = f"AwsSolutions-IAM5[Resource::arn:*:iam::{stack.account}:role/*]"
    acknowledge(
        self_mutation,
        {
            _arn(stack, "logs", f"log-group:/aws/codebuild/{project}:*"): own,
            _arn(stack, "codebuild", f"report-group/{project}-*"): own,
            any_role: "Only roles that carry the tag of the bootstrap's roles, by the statement's condition.",
            ANY_RESOURCE: "CDK's own: reads of stacks and listing of staging buckets.",
        },
    )
    own = "CDK's own: one role for all projects that publish assets, whose names are not known to it."
    acknowledge(
        assets,
        {
            _arn(stack, "logs", "log-group:/aws/codebuild/*"): own,
            _arn(stack, "codebuild", "report-group/*"): own,
            ANY_RESOURCE: "CDK's own: reads and starts of builds for batches.",
        },
    )
    versions = wildcard(pipeline, f"{approver.function_arn}:*")
    for construct in pipeline.pipeline.node.find_all():
        name = construct.node.id
        if name.endswith("-ByVerdict"):
            listing = "lambda:ListFunctions: The action takes no ARN."
            acknowledge(construct, {ANY_RESOURCE: listing, versions: "Versions of this one function."})
        if name.startswith("Approve"):
            key = "CDK's own grant on the topic's key."
            acknowledge(construct, {"AwsSolutions-IAM5[Action::kms:GenerateDataKey*]": key})


def secure_replication(pipeline: pipelines.CodePipeline) -> None:
    """Enable rotation of the keys that the CDK creates in other regions, and acknowledge findings on their buckets."""
    for support in pipeline.pipeline.cross_region_support.values():
        for construct in support.stack.node.find_all():
            if isinstance(construct, kms.CfnKey):
                construct.enable_key_rotation = True
            if isinstance(construct, s3.CfnBucket):
                acknowledge(construct, {"AwsSolutions-S1": "Replicas; the source bucket logs reads."})
        objects = wildcard(pipeline, support.replication_bucket.arn_for_objects("*"))
        acknowledge(
            _find(pipeline, "Pipeline", "Role"),
            {
                objects: "CDK's own grant on the bucket of replicas, which only this pipeline uses.",
                ANY_RESOURCE: "CDK's own: a key of another region is not known by ARN.",
            },
        )


def _arn(stack: Stack, service: str, resource: str) -> str:
    return wildcard(stack, stack.format_arn(service=service, resource=resource))


def _find(construct: IConstruct, *path: str) -> IConstruct:
    for name in path:
        construct = construct.node.find_child(name)
    return construct

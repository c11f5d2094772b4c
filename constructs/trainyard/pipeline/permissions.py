"""IAM statements for each pipeline step, scoped to the environment's resources."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import aws_iam as iam

from settings.model import Environment
from settings.regions import partition
from settings.stacks import ENVIRONMENT_TAG
from trainyard.pipeline.actions import ASSUME, DIFF, PREFLIGHT, VALIDATION
from trainyard.pipeline.names import Purpose

_OWN = ("ssm:GetParameter", "ssm:SendCommand")
"""Actions of the validation that are granted only on the environment's parameter, document and head node."""


def statements(environment: Environment) -> Mapping[Purpose, list[iam.PolicyStatement]]:
    """By purpose."""
    return {
        "preflight": preflight_statements(environment),
        "diff": diff_statements(environment),
        "validation": validation_statements(environment),
    }


def preflight_statements(environment: Environment) -> list[iam.PolicyStatement]:
    """Reads of a region, and the ParallelCluster API's user role for the dry run.

    That role may do everything that the API can, so the condition excludes the APIs of other environments.
    An existing API is named by the environment file, and may have any tags.
    """
    ours = {"StringEquals": {f"iam:ResourceTag/{ENVIRONMENT_TAG}": environment.name}}
    return [
        iam.PolicyStatement(sid="Reads", actions=list(PREFLIGHT), resources=["*"]),
        iam.PolicyStatement(
            sid="DryRun",
            actions=[ASSUME],
            resources=[api_user_role(environment)],
            conditions=ours if environment.cluster.api is None else None,
        ),
    ]


def diff_statements(environment: Environment) -> list[iam.PolicyStatement]:
    """The templates of the environment's own stacks."""
    return [iam.PolicyStatement(sid="Stacks", actions=list(DIFF), resources=[own_stacks(environment)])]


def validation_statements(environment: Environment) -> list[iam.PolicyStatement]:
    """Commands of the environment's own document, on the cluster's head node only."""
    reads = [action for action in VALIDATION if action not in _OWN]
    return [
        iam.PolicyStatement(sid="Reads", actions=reads, resources=["*"]),
        iam.PolicyStatement(sid="Document", actions=["ssm:SendCommand"], resources=[own_documents(environment)]),
        iam.PolicyStatement(
            sid="HeadNode",
            actions=["ssm:SendCommand"],
            resources=[instances(environment)],
            conditions={
                "StringEquals": {
                    "ssm:resourceTag/parallelcluster:cluster-name": environment.cluster_name,
                    "ssm:resourceTag/parallelcluster:node-type": "HeadNode",
                }
            },
        ),
        iam.PolicyStatement(sid="Names", actions=["ssm:GetParameter"], resources=[own_parameters(environment)]),
    ]


def wildcards(environment: Environment) -> Mapping[Purpose, Mapping[str, str]]:
    """By purpose, each resource with a wildcard and its reason."""
    return {
        "preflight": {
            "*": "Reads of offers, quotas and resources of a region, which take no ARN or ask for all of them.",
            api_user_role(environment): "The API's template ends the name of its user role with its stack's id; the "
            "condition takes the role with the environment's tag, which CloudFormation puts on all of its stacks.",
        },
        "diff": {
            own_stacks(environment): "The environment's own stacks; an ARN ends with an id given by CloudFormation."
        },
        "validation": {
            "*": "Descriptions of instances and results of commands take no ARN.",
            own_documents(environment): "CloudFormation ends the document's name with letters of its own.",
            instances(environment): "Instances come and go; the condition takes the cluster's head node alone.",
            own_parameters(environment): "Parameters of the environment's own cluster stack.",
        },
    }


def own_stacks(environment: Environment) -> str:
    """ARN of the environment's stacks."""
    return _arn(environment, "cloudformation", f"stack/{environment.name}-*/*")


def own_documents(environment: Environment) -> str:
    """ARN of the documents of its cluster stack."""
    return _arn(environment, "ssm", f"document/{environment.name}-cluster-*")


def own_parameters(environment: Environment) -> str:
    """ARN of its parameters for the validation."""
    return _arn(environment, "ssm", f"parameter/trainyard/{environment.name}/validation/*")


def instances(environment: Environment) -> str:
    """ARN of all instances."""
    return _arn(environment, "ec2", "instance/*")


def api_user_role(environment: Environment) -> str:
    """ARN of the role that may call the ParallelCluster API, from the API's template or the environment file."""
    if environment.cluster.api is not None:
        return environment.cluster.api.user_role_arn
    part = partition(environment.region)
    return f"arn:{part}:iam::{environment.account}:role/ParallelClusterApiUserRole-*"


def _arn(environment: Environment, service: str, resource: str) -> str:
    return f"arn:{partition(environment.region)}:{service}:{environment.region}:{environment.account}:{resource}"

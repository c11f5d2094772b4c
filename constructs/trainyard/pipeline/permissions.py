"""What the roles in an environment's account may do."""

from __future__ import annotations

from aws_cdk import aws_iam as iam

from settings.model import Environment
from settings.pipeline.rules import partition

PREFLIGHT = (
    "ec2:DescribeAddresses",
    "ec2:DescribeAvailabilityZones",
    "ec2:DescribeCapacityReservations",
    "ec2:DescribeImages",
    "ec2:DescribeInstanceTypeOfferings",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeInstances",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcs",
    "fsx:DescribeFileSystems",
    "s3:ListAllMyBuckets",
    "s3:ListBucket",
    "servicequotas:GetServiceQuota",
    "servicequotas:ListServiceQuotas",
    "ssm:GetParameter",
)
VALIDATION_READS = ("ec2:DescribeInstances", "ssm:DescribeInstanceInformation", "ssm:GetCommandInvocation")
HEAD_NODE_DOCUMENT = "AWS-RunShellScript"


def review_statements(environment: Environment) -> list[iam.PolicyStatement]:
    """For preflight, diff and drift: nothing that changes anything."""
    stacks = _arn(environment, "cloudformation", f"stack/{environment.name}-*/*")
    return [
        iam.PolicyStatement(sid="Preflight", actions=list(PREFLIGHT), resources=["*"]),
        iam.PolicyStatement(
            sid="Stacks",
            actions=[
                "cloudformation:DescribeStacks",
                "cloudformation:DescribeStackResources",
                "cloudformation:GetTemplate",
                "cloudformation:ListStackResources",
            ],
            resources=[stacks],
        ),
    ]


def validation_statements(environment: Environment) -> list[iam.PolicyStatement]:
    """For the validation: commands on the cluster's head node, and no other instance."""
    part = partition(environment.region)
    document = f"arn:{part}:ssm:{environment.region}::document/{HEAD_NODE_DOCUMENT}"
    return [
        iam.PolicyStatement(sid="Document", actions=["ssm:SendCommand"], resources=[document]),
        iam.PolicyStatement(
            sid="HeadNode",
            actions=["ssm:SendCommand"],
            resources=[_arn(environment, "ec2", "instance/*")],
            conditions={
                "StringEquals": {
                    "ssm:resourceTag/parallelcluster:cluster-name": environment.cluster_name,
                    "ssm:resourceTag/parallelcluster:node-type": "HeadNode",
                }
            },
        ),
        iam.PolicyStatement(sid="Results", actions=list(VALIDATION_READS), resources=["*"]),
    ]


def _arn(environment: Environment, service: str, resource: str) -> str:
    return f"arn:{partition(environment.region)}:{service}:{environment.region}:{environment.account}:{resource}"

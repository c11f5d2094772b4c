"""IAM actions of the operator's commands that a pipeline runs. Tests compare each list with the command's calls."""

from __future__ import annotations

IDENTITY = "sts:GetCallerIdentity"
"""Needs no permission; listed for permissions boundaries."""

BUCKETS = "s3:ListBucket"
"""Authorizes HeadBucket, on the buckets whose names the environment file gives."""

PREFLIGHT: tuple[str, ...] = (
    "chatbot:DescribeSlackWorkspaces",
    "chatbot:ListMicrosoftTeamsConfiguredTeams",
    # ListGroupResources requires this one too, and tag:GetResources.
    "cloudformation:DescribeStacks",
    "cloudformation:ListExports",
    "cloudformation:ListStackResources",
    "ec2:DescribeAddresses",
    "ec2:DescribeAvailabilityZones",
    "ec2:DescribeCapacityReservations",
    "ec2:DescribeImages",
    "ec2:DescribeInstanceTypeOfferings",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeInstances",
    "ec2:DescribeNatGateways",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcs",
    "ecr:DescribeRepositories",
    "ecr:ListTagsForResource",
    "fsx:DescribeFileSystems",
    "fsx:DescribeVolumes",
    "logs:DescribeLogGroups",
    "rds:DescribeDBEngineVersions",
    "resource-groups:ListGroupResources",
    BUCKETS,
    "servicequotas:ListAWSDefaultServiceQuotas",
    "servicequotas:ListServiceQuotas",
    "sso:ListInstances",
    IDENTITY,
    "tag:GetResources",
)
"""Reads without resource-level permissions, or of all resources: granted on `*`, except BUCKETS."""

DIFF: tuple[str, ...] = ("cloudformation:DescribeStacks", "cloudformation:GetTemplate")
"""On the environment's own stacks."""

ASSUME = "sts:AssumeRole"
"""On the ParallelCluster API's user role, for the dry run of a preflight."""

VALIDATION: tuple[str, ...] = (
    "ec2:DescribeInstances",
    "ssm:GetCommandInvocation",
    "ssm:GetParameter",
    "ssm:SendCommand",
)
"""GetParameter on /trainyard/<environment>/validation/document. SendCommand on the document which that parameter names,
and on the head node (tags parallelcluster:cluster-name and parallelcluster:node-type=HeadNode). The other two have no
resource-level permissions.
"""

USAGE: tuple[str, ...] = tuple(sorted({*VALIDATION, "ec2:DescribeCapacityReservations"}))
"""As VALIDATION, with the parameter /trainyard/<environment>/usage/document. DescribeCapacityReservations on `*`."""

DEPLOYMENT: tuple[str, ...] = tuple(
    sorted(
        {
            *PREFLIGHT,
            *DIFF,
            "cloudformation:ContinueUpdateRollback",
            "cloudformation:DescribeStackEvents",
            "cloudformation:UpdateTerminationProtection",
            "fsx:DescribeBackups",
            "fsx:DescribeDataRepositoryAssociations",
            "iam:GetRole",
            "iam:SimulatePrincipalPolicy",
            "pricing:GetProducts",
            "rds:DescribeDBClusters",
            "rds:ModifyDBCluster",
            "s3:GetBucketVersioning",
            "s3:ListBucketVersions",
            "ssm:GetParameter",
        }
    )
)
"""`up`, `status` and `down` on AWS. Everything else they do with the roles of `cdk bootstrap`."""

PEOPLE: tuple[str, ...] = (
    "ec2:DescribeInstances",
    "s3:PutObject",
    "ssm:GetCommandInvocation",
    "ssm:GetParameter",
    "ssm:SendCommand",
    IDENTITY,
)
"""`user add`, `remove` and `apply`."""

CONNECT: tuple[str, ...] = (
    "cloudformation:DescribeStacks",
    "ec2-instance-connect:SendSSHPublicKey",
    "ec2:DescribeInstances",
    "ssm:StartSession",
    IDENTITY,
)
"""`connect`, and the SSH configuration that it writes."""

"""The IAM actions that `trainyard drift` needs.

CloudFormation's drift detection also reads each resource with the caller's permissions, so the caller needs AWS's
ReadOnlyAccess too (docs/drift.md).
"""

from __future__ import annotations

CALLED = (
    "cloudformation:DescribeStackDriftDetectionStatus",
    "cloudformation:DescribeStackResourceDrifts",
    "cloudformation:DescribeStacks",
    "cloudformation:DetectStackDrift",
    "cloudformation:GetTemplate",
    "cloudformation:ListStackResources",
    "ec2:DescribeSecurityGroupRules",
    "ec2:DescribeSecurityGroups",
    "fsx:DescribeFileSystems",
    "iam:GetRolePolicy",
    "iam:ListAttachedRolePolicies",
    "iam:ListRolePolicies",
    "s3:GetObject",
    "sts:AssumeRole",
    "sts:GetCallerIdentity",
)
"""Actions of the calls that the command makes."""

AUTHORIZED = ("cloudformation:DetectStackResourceDrift",)
"""Checked by DetectStackDrift for each resource; not a call of its own."""

ACTIONS = tuple(sorted((*CALLED, *AUTHORIZED)))
"""Where CloudFormation does not compare volumes and associations, fsx:DescribeVolumes and
fsx:DescribeDataRepositoryAssociations too; ReadOnlyAccess has both."""

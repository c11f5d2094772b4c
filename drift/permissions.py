"""The IAM actions of this command's own calls.

CloudFormation's drift detection reads each resource with the caller's rights as well, so that the role of a person or a
pipeline wants AWS's ReadOnlyAccess beside these (docs/drift.md).
"""

from __future__ import annotations

ACTIONS = (
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
"""Where CloudFormation does not compare volumes and associations: fsx:DescribeVolumes and
fsx:DescribeDataRepositoryAssociations too, both in ReadOnlyAccess."""

"""The IAM actions of this command's own calls.

CloudFormation's drift detection reads each resource with the caller's rights as well, so that the role of a person or a
pipeline wants AWS's ReadOnlyAccess beside these (docs/drift.md).
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
"""Actions that no call has the name of: DetectStackDrift is also authorized by this one, for each resource."""

ACTIONS = tuple(sorted((*CALLED, *AUTHORIZED)))
"""Where CloudFormation does not compare volumes and associations: fsx:DescribeVolumes and
fsx:DescribeDataRepositoryAssociations too, both in ReadOnlyAccess."""

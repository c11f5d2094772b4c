"""Drift: resources that differ from what was deployed.

CloudFormation's drift detection also reads each resource with the caller's permissions, so the caller needs AWS's
ReadOnlyAccess too (docs/drift.md). That has fsx:DescribeVolumes and fsx:DescribeDataRepositoryAssociations, which are
called where CloudFormation does not compare volumes and associations.
"""

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
"""IAM actions of the calls that `trainyard drift` makes."""

ACTIONS = tuple(sorted((*CALLED, "cloudformation:DetectStackResourceDrift")))
"""All that it needs: DetectStackDrift checks the other action for each resource."""

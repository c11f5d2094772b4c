"""The IAM actions that a preflight needs: what a role for it is granted, no more. All of them only read.

`ACTIONS` know no resources, or are asked of all of them, so they are granted on `*`. To have the ParallelCluster API
asked too, the role must be able to assume the API's user role (`ASSUME`, on that role's ARN): that role may do all that
the API can, creating and deleting clusters among it, of which a preflight uses two reads and the dry runs.
"""

from __future__ import annotations

import re

ACTIONS: tuple[str, ...] = (
    # ListGroupResources asks for this one too, and for tag:GetResources.
    "cloudformation:DescribeStacks",
    "cloudformation:ListExports",
    "cloudformation:ListStackResources",
    "ec2:DescribeAddresses",
    "ec2:DescribeCapacityReservations",
    "ec2:DescribeImages",
    "ec2:DescribeInstanceTypeOfferings",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeInstances",
    "ec2:DescribeNatGateways",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcs",
    "fsx:DescribeFileSystems",
    "resource-groups:ListGroupResources",
    # HeadBucket is authorized as ListBucket.
    "s3:ListBucket",
    "servicequotas:ListAWSDefaultServiceQuotas",
    "servicequotas:ListServiceQuotas",
    # Needs no permission; named so that a boundary lets it pass.
    "sts:GetCallerIdentity",
    "tag:GetResources",
)

ASSUME = "sts:AssumeRole"

_PREFIXES = {"service-quotas": "servicequotas"}
_NAMES = {"s3:HeadBucket": "s3:ListBucket"}


def action_of(service: str, operation: str) -> str:
    """The IAM action of a call, `ec2:DescribeVpcs` for boto3's service `ec2` and its method `describe_vpcs`."""
    name = re.sub(r"(^|_)([a-z])", lambda found: found[2].upper(), operation).replace("Aws", "AWS")
    action = f"{_PREFIXES.get(service, service)}:{name}"
    return _NAMES.get(action, action)

"""The IAM actions that a preflight needs. All of them only read.

`ACTIONS` do not support resources, or apply to all of them, so they are granted on `*`. For the dry run of the
ParallelCluster API, the role must also be able to assume the API's user role (`ASSUME`, on that role's ARN). That role
can do everything that the API can, including creating and deleting clusters; a preflight uses two reads and dry runs.
"""

from __future__ import annotations

import re

from trainyard.pipeline.actions import ASSUME
from trainyard.pipeline.actions import PREFLIGHT as ACTIONS

__all__ = ["ACTIONS", "ASSUME", "action_of"]

_PREFIXES = {"service-quotas": "servicequotas"}
_NAMES = {"s3:HeadBucket": "s3:ListBucket"}


def action_of(service: str, operation: str) -> str:
    """The IAM action of a call, `ec2:DescribeVpcs` for boto3's service `ec2` and its method `describe_vpcs`."""
    name = re.sub(r"(^|_)([a-z])", lambda found: found[2].upper(), operation).replace("Aws", "AWS")
    action = f"{_PREFIXES.get(service, service)}:{name}"
    return _NAMES.get(action, action)

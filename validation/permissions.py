"""What a validation may have to be allowed: the calls that it makes, and no others."""

from __future__ import annotations

ACTIONS: tuple[str, ...] = (
    "ec2:DescribeInstances",
    "ssm:GetCommandInvocation",
    "ssm:GetParameter",
    "ssm:SendCommand",
)
"""IAM actions. SendCommand is needed on the document that /trainyard/<environment>/validation/document names and on the
head node, whose tags are parallelcluster:cluster-name and parallelcluster:node-type=HeadNode; GetParameter on that
parameter. The other two know no resources.
"""

"""Who may assume a role."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import Construct


def own_service(scope: Construct, service: str) -> iam.ServicePrincipal:
    """A service of AWS, for resources of the stack's own account only."""
    return iam.ServicePrincipal(service, conditions={"StringEquals": {"aws:SourceAccount": Stack.of(scope).account}})

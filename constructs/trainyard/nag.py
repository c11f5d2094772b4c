"""Acknowledged cdk-nag findings: one rule, on one construct, with the reason beside the code it concerns."""

from __future__ import annotations

from aws_cdk import Acknowledgment, Validations
from constructs import IConstruct


def acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    """Accept the finding `rule` (for example `AwsSolutions-S1`, or `AwsSolutions-IAM5[Resource::*]`) on `construct`."""
    Validations.of(construct).acknowledge(Acknowledgment(id=rule, reason=reason))

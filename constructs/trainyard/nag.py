"""Acknowledged cdk-nag findings: one rule, on one construct, with the reason beside the code it concerns."""

from __future__ import annotations

from typing import Any

from aws_cdk import Acknowledgment, Stack, Validations
from constructs import IConstruct


def acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    """Accept the finding `rule` (for example `AwsSolutions-S1`, or `AwsSolutions-IAM5[Resource::*]`) on `construct`."""
    Validations.of(construct).acknowledge(Acknowledgment(id=rule, reason=reason))


def acknowledge_resource(construct: IConstruct, arn: str, reason: str) -> None:
    """Accept on `construct` a policy's wildcard in this one ARN, which may hold tokens."""
    acknowledge(construct, f"AwsSolutions-IAM5[Resource::{_written(Stack.of(construct).resolve(arn))}]", reason)


def _written(value: Any) -> str:  # noqa: ANN401 - a resolved token is whatever CloudFormation takes
    """A resolved value as cdk-nag writes it into a finding: references as <LogicalId> and <LogicalId.Attribute>."""
    match value:
        case str():
            return value
        case {"Ref": name}:
            return f"<{name}>"
        case {"Fn::GetAtt": [name, attribute]}:
            return f"<{name}.{attribute}>"
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(_written(part) for part in parts)
    raise ValueError(
        f"{value!r} is no ARN that a finding could name: use text, references, attributes and joins of them."
    )

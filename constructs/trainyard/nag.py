"""Acknowledged cdk-nag findings: one rule, on one construct, with the reason next to the code that it concerns."""

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


def wildcard_resource(scope: IConstruct, owner: IConstruct, arn: str, suffix: str) -> str:
    """The finding that a policy in the stack of `scope` has the resource `arn` of `owner` followed by `suffix`.

    An ARN of another stack comes in as that stack's export; cdk-nag writes the export's name in its place.
    """
    stack, owners_stack = Stack.of(scope), Stack.of(owner)
    if stack is owners_stack:
        name = _written(stack.resolve(arn))
    else:
        # The export that the reference makes anyway: asking for it twice makes one.
        name = owners_stack.resolve(owners_stack.export_value(arn))["Fn::ImportValue"]
    return f"AwsSolutions-IAM5[Resource::{name}{suffix}]"


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
        f"{value!r} is not an ARN that a finding could name: use text, references, attributes and joins of them."
    )

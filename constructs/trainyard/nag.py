"""Acknowledged cdk-nag findings: single rules on single constructs, with the reasons next to the code they concern."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aws_cdk import Acknowledgment, Stack, Validations
from constructs import IConstruct

ANY_RESOURCE = "AwsSolutions-IAM5[Resource::*]"
LAMBDA_LOGS_POLICY = (
    "AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole]"
)


def acknowledge(construct: IConstruct, reasons: Mapping[str, str]) -> None:
    """Accept findings on `construct`: reasons by rule, such as `AwsSolutions-S1`, ANY_RESOURCE or a `wildcard`."""
    Validations.of(construct).acknowledge(*(Acknowledgment(id=rule, reason=why) for rule, why in reasons.items()))


def wildcard(scope: IConstruct, arn: str, suffix: str = "", *, owner: IConstruct | None = None) -> str:
    """The finding that a policy in the stack of `scope` has the resource `arn`, which may hold tokens, with `suffix`.

    The ARN of an `owner` in another stack comes in as that stack's export: cdk-nag writes the export's name instead.
    """
    stack = Stack.of(scope)
    if owner is None or (owners_stack := Stack.of(owner)) is stack:
        name = _written(stack.resolve(arn))
    else:
        # The export that the reference makes anyway: asking for it twice makes one.
        name = owners_stack.resolve(owners_stack.export_value(arn))["Fn::ImportValue"]
    return f"AwsSolutions-IAM5[Resource::{name}{suffix}]"


def _written(value: Any) -> str:  # noqa: ANN401 - a resolved token is whatever CloudFormation takes
    """A resolved value as cdk-nag writes it into a finding: references as <LogicalId> and <LogicalId.Attribute>."""
    match value:
        case {"Ref": name}:
            return f"<{name}>"
        case {"Fn::GetAtt": [name, attribute]}:
            return f"<{name}.{attribute}>"
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(_written(part) for part in parts)
    return str(value)

"""How cdk-nag names its findings about wildcard resources (AwsSolutions-IAM5); each is acknowledged by itself."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import IConstruct


def wildcard_resource(scope: IConstruct, owner: IConstruct, arn: str, suffix: str) -> str:
    """The finding that a policy in the stack of `scope` has the resource `arn` of `owner` followed by `suffix`.

    An ARN of another stack comes in as that stack's export; cdk-nag writes the export's name in its place.
    """
    stack, owners_stack = cdk.Stack.of(scope), cdk.Stack.of(owner)
    if stack.node.path == owners_stack.node.path:
        logical_id, attribute = stack.resolve(arn)["Fn::GetAtt"]
        name = f"<{logical_id}.{attribute}>"
    else:
        # The very export that the reference makes by itself: asking for it twice makes one.
        name = owners_stack.resolve(owners_stack.export_value(arn))["Fn::ImportValue"]
    return f"AwsSolutions-IAM5[Resource::{name}{suffix}]"

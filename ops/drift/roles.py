"""Drift of the policies of the environment's roles.

CloudFormation does not compare AWS::IAM::Policy (its registry schema has no read handler). Of a role it compares only
the policies in the role's own properties, so it misses policies that are added to a role.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ops.drift.compare import compared
from ops.drift.deployed_stack import DeployedStack
from ops.drift.detection import subject
from ops.drift.findings import Finding
from ops.drift.values import Values
from ops.intrinsics import UNKNOWN
from ops.review.structure import ABSENT

Client = Any
"""A boto3 client of IAM; its type stubs are not installed."""

ROLE, POLICY, MANAGED = "AWS::IAM::Role", "AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"
ADDED = "Remove the policy from the role, or add it to the code and deploy."


def check(client: Client, stack: DeployedStack, values: Values) -> Iterator[Finding]:
    """Policies of the stack's roles that were added, removed or changed. CloudFormation reports deleted roles.

    Raises:
        ClientError: IAM denies access.
    """
    for resource in stack.of(ROLE):
        name = resource.physical_id
        what = subject(resource.logical_id, resource.kind, name)
        inline, attached = _expected(stack, values, name, values.properties(resource, stack))
        try:
            pages = client.get_paginator("list_role_policies").paginate(RoleName=name)
            present = [policy for page in pages for policy in page["PolicyNames"]]
        except client.exceptions.NoSuchEntityException:
            continue
        for policy in present:
            if policy not in inline:
                yield Finding(stack.name, what, f"policy {policy}", ABSENT, "an inline policy", ADDED)
        for policy, document in inline.items():
            if policy not in present:
                yield Finding(stack.name, what, f"policy {policy}", "an inline policy", ABSENT)
                continue
            found: Any = client.get_role_policy(RoleName=name, PolicyName=policy)["PolicyDocument"]
            for difference in compared(document, found):
                path = f"policy {policy}: {difference.path}"
                yield Finding(stack.name, what, path, difference.old, difference.new)
        yield from _attached(client, stack, what, name, attached)


def _attached(
    client: Client, stack: DeployedStack, what: str, name: str, expected: set[str] | None
) -> Iterator[Finding]:
    pages = client.get_paginator("list_attached_role_policies").paginate(RoleName=name)
    present = {policy["PolicyArn"] for page in pages for policy in page["AttachedPolicies"]}
    if expected is None:
        return
    for arn in sorted(present - expected):
        yield Finding(stack.name, what, "attached policy", ABSENT, arn, ADDED)
    for arn in sorted(expected - present):
        yield Finding(stack.name, what, "attached policy", arn, ABSENT)


def _expected(
    stack: DeployedStack, values: Values, role: str, properties: Mapping[str, Any]
) -> tuple[dict[str, Any], set[str] | None]:
    """Inline policy documents by name, and the ARNs of the attached policies, None where one is unknown."""
    inline = {policy["PolicyName"]: policy["PolicyDocument"] for policy in properties.get("Policies", [])}
    attached: list[Any] = list(properties.get("ManagedPolicyArns", []))
    for resource in stack.of(POLICY, MANAGED):
        policy = values.properties(resource, stack)
        if role not in policy.get("Roles", []):
            continue
        if resource.kind == POLICY:
            inline[policy["PolicyName"]] = policy["PolicyDocument"]
        else:
            attached.append(resource.physical_id)
    return inline, None if UNKNOWN in attached else set(attached)

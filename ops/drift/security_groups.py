"""Drift of the rules of the environment's security groups.

CloudFormation compares only the rules of the template, so it misses rules that are added to a group. Here all rules of
a group are compared with all deployed rules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ops.drift.deployed_stack import DeployedStack, Resource
from ops.drift.detection import subject
from ops.drift.findings import Finding
from ops.drift.values import Values
from ops.intrinsics import UNKNOWN
from ops.review.structure import ABSENT

if TYPE_CHECKING:
    from types_boto3_ec2 import EC2Client

GROUP = "AWS::EC2::SecurityGroup"
INGRESS, EGRESS = "AWS::EC2::SecurityGroupIngress", "AWS::EC2::SecurityGroupEgress"
CLOSED = "Custom::ClosedDefaultSecurityGroup"
KINDS = (GROUP, INGRESS, EGRESS)
ADVICE = "Remove the rule from the group, or add it to the code and deploy."

_ALL = "-1"
_NUMBERS = {"1": "icmp", "6": "tcp", "17": "udp", "58": "icmpv6", "all": _ALL}
_GROUPS_A_CALL = 100


@dataclass(frozen=True, order=True)
class Rule:
    """One rule of one group. `peer` is a range of addresses, a prefix list, or another group."""

    group: str
    egress: bool
    protocol: str
    ports: str
    peer: str

    def __str__(self) -> str:
        what = "anything" if self.protocol == _ALL else f"{self.protocol} {self.ports}".strip()
        return f"{what} {'to' if self.egress else 'from'} {self.peer}"


def check(client: EC2Client, stack: DeployedStack, values: Values, skip: Collection[str] = ()) -> Iterator[Finding]:
    """Rules that were added to the groups of a stack, and rules that were removed.

    `skip` has the logical ids of rules that CloudFormation already reported as deleted.

    Raises:
        ClientError: EC2 denies access.
    """
    groups = {resource.physical_id: resource for resource in stack.of(GROUP) if resource.physical_id}
    expected = _expected(stack, values, groups)
    actual = _actual(client, list(groups))
    for rule in sorted(actual - set(expected)):
        yield _finding(stack, groups[rule.group], rule, expected=ABSENT, actual=str(rule), advice=ADVICE)
    for rule in sorted(set(expected) - actual):
        if expected[rule] not in skip:
            yield _finding(stack, groups[rule.group], rule, expected=str(rule), actual=ABSENT)
    yield from _default_group(client, stack)


def _finding(
    stack: DeployedStack, group: Resource, rule: Rule, *, expected: object, actual: object, advice: str = ""
) -> Finding:
    what = subject(group.logical_id, group.kind, group.physical_id)
    return Finding(stack.name, what, "egress rule" if rule.egress else "ingress rule", expected, actual, advice)


def _expected(stack: DeployedStack, values: Values, groups: Mapping[str, Resource]) -> dict[Rule, str]:
    """The rules of the template, with the logical ids that they come from."""
    found: dict[Rule, str] = {}
    for group, resource in groups.items():
        properties = values.properties(resource, stack)
        for item in properties.get("SecurityGroupIngress", []):
            found[_of_template(group, item, egress=False)] = resource.logical_id
        # Without egress rules, EC2 allows everything.
        for item in properties.get("SecurityGroupEgress", [{"IpProtocol": _ALL, "CidrIp": "0.0.0.0/0"}]):
            found[_of_template(group, item, egress=True)] = resource.logical_id
    for resource in stack.of(INGRESS, EGRESS):
        properties = values.properties(resource, stack)
        if properties["GroupId"] in groups:
            rule = _of_template(properties["GroupId"], properties, egress=resource.kind == EGRESS)
            found[rule] = resource.logical_id
    return found


def _of_template(group: str, item: Mapping[str, Any], *, egress: bool) -> Rule:
    side = "Destination" if egress else "Source"
    peer = next(
        item[key]
        for key in ("CidrIp", "CidrIpv6", f"{side}SecurityGroupId", f"{side}PrefixListId")
        if item.get(key) not in (None, "")
    )
    text = "(a peer that only AWS knows)" if peer is UNKNOWN else str(peer)
    return Rule(group, egress, *_ports(item["IpProtocol"], item.get("FromPort"), item.get("ToPort")), text)


def _actual(client: EC2Client, groups: list[str]) -> set[Rule]:
    found = set()
    for start in range(0, len(groups), _GROUPS_A_CALL):
        some = groups[start : start + _GROUPS_A_CALL]
        pages = client.get_paginator("describe_security_group_rules").paginate(
            Filters=[{"Name": "group-id", "Values": some}]
        )
        found |= {_of_service(item) for page in pages for item in page["SecurityGroupRules"]}
    return found


def _of_service(item: Mapping[str, Any]) -> Rule:
    peer = (
        item.get("CidrIpv4")
        or item.get("CidrIpv6")
        or item.get("PrefixListId")
        or item.get("ReferencedGroupInfo", {}).get("GroupId", "")
    )
    ports = _ports(item["IpProtocol"], item.get("FromPort"), item.get("ToPort"))
    return Rule(item["GroupId"], bool(item["IsEgress"]), *ports, peer)


def _ports(protocol: object, first: object, last: object) -> tuple[str, str]:
    name = _NUMBERS.get(str(protocol).lower(), str(protocol).lower())
    if name == _ALL or first is None:
        return name, ""
    return name, str(first) if str(first) == str(last) else f"{first}-{last}"


def _default_group(client: EC2Client, stack: DeployedStack) -> Iterator[Finding]:
    """Rules of the VPC's default group, which a custom resource emptied."""
    networks = [resource.physical_id for resource in stack.of("AWS::EC2::VPC") if resource.physical_id]
    if not networks or not any(stack.of(CLOSED)):
        return
    groups = client.describe_security_groups(
        Filters=[{"Name": "vpc-id", "Values": networks}, {"Name": "group-name", "Values": ["default"]}]
    )["SecurityGroups"]
    for rule in sorted(_actual(client, [group["GroupId"] for group in groups]) if groups else ()):
        path = "egress rule" if rule.egress else "ingress rule"
        yield Finding(stack.name, f"the VPC's default security group {rule.group}", path, ABSENT, str(rule), ADVICE)

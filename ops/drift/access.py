"""Drift of who may do what: rules of the environment's security groups, and policies of its roles.

CloudFormation compares only the rules of the template, so it misses rules that are added to a group. It does not
compare AWS::IAM::Policy (its registry schema has no read handler), and of a role only the policies in the role's own
properties, so it misses policies that are added to a role.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ops.drift.deployed_stack import DeployedStack
from ops.drift.findings import Finding
from ops.drift.values import Values, compared
from ops.intrinsics import UNKNOWN
from ops.review.structure import ABSENT

if TYPE_CHECKING:
    from types_boto3_ec2 import EC2Client

GROUP = "AWS::EC2::SecurityGroup"
INGRESS, EGRESS = "AWS::EC2::SecurityGroupIngress", "AWS::EC2::SecurityGroupEgress"
CLOSED = "Custom::ClosedDefaultSecurityGroup"
ROLE, POLICY, MANAGED = "AWS::IAM::Role", "AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"

_ADDED_RULE = "Remove the rule from the group, or add it to the code and deploy."
_ADDED_POLICY = "Remove the policy from the role, or add it to the code and deploy."
_ALL = "-1"
_NUMBERS = {"1": "icmp", "6": "tcp", "17": "udp", "58": "icmpv6", "all": _ALL}


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

    @property
    def path(self) -> str:
        return "egress rule" if self.egress else "ingress rule"


def check_rules(
    client: EC2Client,
    stack: DeployedStack,
    values: Values,
    skip: Collection[str] = (),
    others: Iterable[DeployedStack] = (),
) -> Iterator[Finding]:
    """Rules that were added to the groups of a stack, and rules that were removed.

    `skip` has the logical ids of rules that CloudFormation already reported as deleted; `others` are stacks that may
    add rules to these groups, as that of the monitoring host does. Raises ClientError.
    """
    groups = {resource.physical_id: resource for resource in stack.of(GROUP) if resource.physical_id}
    expected = _expected_rules(stack, values, groups)
    actual = _actual_rules(client, list(groups))
    elsewhere = {rule for other in others for rule in _expected_rules(other, values, groups)}
    for rule in sorted(actual - set(expected) - elsewhere):
        yield Finding(stack.name, groups[rule.group].subject, rule.path, ABSENT, str(rule), _ADDED_RULE)
    for rule in sorted(set(expected) - actual):
        if expected[rule] not in skip:
            yield Finding(stack.name, groups[rule.group].subject, rule.path, str(rule), ABSENT)
    # A custom resource empties the VPC's default group.
    networks = [resource.physical_id for resource in stack.of("AWS::EC2::VPC") if resource.physical_id]
    if networks and any(stack.of(CLOSED)):
        filters = {"vpc-id": networks, "group-name": ["default"]}
        default = client.describe_security_groups(
            Filters=[{"Name": name, "Values": wanted} for name, wanted in filters.items()]
        )
        for rule in sorted(_actual_rules(client, [group["GroupId"] for group in default["SecurityGroups"]])):
            what = f"the VPC's default security group {rule.group}"
            yield Finding(stack.name, what, rule.path, ABSENT, str(rule), _ADDED_RULE)


def _expected_rules(stack: DeployedStack, values: Values, groups: Collection[str]) -> dict[Rule, str]:
    """The rules of the template, with the logical ids that they come from."""
    found: dict[Rule, str] = {}
    for resource in stack.of(GROUP, INGRESS, EGRESS):
        properties = values.properties(resource, stack)
        group = resource.physical_id if resource.kind == GROUP else properties["GroupId"]
        if group not in groups:
            continue
        if resource.kind == GROUP:
            ingress = properties.get("SecurityGroupIngress", [])
            # Without egress rules, EC2 allows everything.
            egress = properties.get("SecurityGroupEgress", [{"IpProtocol": _ALL, "CidrIp": "0.0.0.0/0"}])
        else:
            ingress, egress = ([properties], []) if resource.kind == INGRESS else ([], [properties])
        found |= {_of_template(group, item, "Source"): resource.logical_id for item in ingress}
        found |= {_of_template(group, item, "Destination"): resource.logical_id for item in egress}
    return found


def _of_template(group: str, item: Mapping[str, Any], side: str) -> Rule:
    keys = ("CidrIp", "CidrIpv6", f"{side}SecurityGroupId", f"{side}PrefixListId")
    peer = next(item[key] for key in keys if item.get(key))
    return _rule(group, item, "(a peer that only AWS knows)" if peer is UNKNOWN else peer, egress=side == "Destination")


def _actual_rules(client: EC2Client, groups: list[str]) -> set[Rule]:
    if not groups:
        return set()
    filters: Any = [{"Name": "group-id", "Values": groups}]
    pages = client.get_paginator("describe_security_group_rules").paginate(Filters=filters)
    found = set()
    for item in (item for page in pages for item in page["SecurityGroupRules"]):
        peers = (item.get(key) for key in ("CidrIpv4", "CidrIpv6", "PrefixListId"))
        peer = next(filter(None, peers), None) or item.get("ReferencedGroupInfo", {}).get("GroupId", "")
        found.add(_rule(item["GroupId"], item, str(peer), egress=bool(item["IsEgress"])))
    return found


def _rule(group: str, item: Mapping[str, Any], peer: str, *, egress: bool) -> Rule:
    protocol = str(item["IpProtocol"]).lower()
    protocol = _NUMBERS.get(protocol, protocol)
    first, last = str(item.get("FromPort")), str(item.get("ToPort"))
    ports = first if first == last else f"{first}-{last}"
    return Rule(group, egress, protocol, "" if protocol == _ALL or item.get("FromPort") is None else ports, peer)


def check_roles(client: Any, stack: DeployedStack, values: Values) -> Iterator[Finding]:  # noqa: ANN401 - untyped
    """Policies of the stack's roles that were added, removed or changed. CloudFormation reports deleted roles."""
    for resource in stack.of(ROLE):
        name, what = resource.physical_id, resource.subject
        inline, attached = _expected_policies(stack, values, name, values.properties(resource, stack))
        try:
            pages = client.get_paginator("list_role_policies").paginate(RoleName=name)
            present = [policy for page in pages for policy in page["PolicyNames"]]
        except client.exceptions.NoSuchEntityException:
            continue
        for policy in present:
            if policy not in inline:
                yield Finding(stack.name, what, f"policy {policy}", ABSENT, "an inline policy", _ADDED_POLICY)
        for policy, document in inline.items():
            if policy not in present:
                yield Finding(stack.name, what, f"policy {policy}", "an inline policy", ABSENT)
                continue
            found: Any = client.get_role_policy(RoleName=name, PolicyName=policy)["PolicyDocument"]
            for difference in compared(document, found):
                path = f"policy {policy}: {difference.path}"
                yield Finding(stack.name, what, path, difference.old, difference.new)
        pages = client.get_paginator("list_attached_role_policies").paginate(RoleName=name)
        now = {policy["PolicyArn"] for page in pages for policy in page["AttachedPolicies"]}
        if UNKNOWN not in attached:
            for arn in sorted(now - attached):
                yield Finding(stack.name, what, "attached policy", ABSENT, arn, _ADDED_POLICY)
            for arn in sorted(attached - now):
                yield Finding(stack.name, what, "attached policy", arn, ABSENT)


def _expected_policies(
    stack: DeployedStack, values: Values, role: str, properties: Mapping[str, Any]
) -> tuple[dict[str, Any], set[Any]]:
    """Inline policy documents by name, and the ARNs of the attached policies."""
    inline = {policy["PolicyName"]: policy["PolicyDocument"] for policy in properties.get("Policies", [])}
    attached = set(properties.get("ManagedPolicyArns", []))
    for resource in stack.of(POLICY, MANAGED):
        policy = values.properties(resource, stack)
        if role in policy.get("Roles", []):
            if resource.kind == POLICY:
                inline[policy["PolicyName"]] = policy["PolicyDocument"]
            else:
                attached.add(resource.physical_id)
    return inline, attached

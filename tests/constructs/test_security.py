"""The security groups: who may reach whom."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from tests.constructs.stacks_of import app_without_bundling, build, environment, synthesize

LUSTRE = {("tcp", 988, 988), ("tcp", 1018, 1023)}
NFS = {(protocol, *ports) for protocol in ("tcp", "udp") for ports in ((111, 111), (2049, 2049), (20001, 20003))}
ALL = {("-1", None, None)}


def _name(reference: dict[str, Any]) -> str:
    identifier = reference["Fn::GetAtt"][0].removeprefix("SecurityGroups")
    return next(name for name in ("Head", "Compute", "Login", "Lustre", "OpenZfs") if identifier.startswith(name))


def ports(template: Template, direction: str, of: str, other: str) -> set[tuple[str, int | None, int | None]]:
    """The ports that the rules of a group open for another group."""
    key = {"Ingress": "SourceSecurityGroupId", "Egress": "DestinationSecurityGroupId"}[direction]
    return {
        (rule["IpProtocol"], rule.get("FromPort"), rule.get("ToPort"))
        for resource in template.find_resources(f"AWS::EC2::SecurityGroup{direction}").values()
        for rule in [resource["Properties"]]
        if _name(rule["GroupId"]) == of and _name(rule[key]) == other
    }


def opened(template: Template) -> dict[str, set[tuple[str, int]]]:
    """By group: the networks and ports that it lets in, if any."""
    groups = template.find_resources("AWS::EC2::SecurityGroup").values()
    return {
        group["Properties"]["GroupDescription"].split(":")[0]: {(rule["CidrIp"], rule["FromPort"]) for rule in rules}
        for group in groups
        if (rules := group["Properties"].get("SecurityGroupIngress"))
    }


@pytest.mark.parametrize("efa_storage", [False, True])
def test_nodes_and_file_systems_reach_each_other_on_their_ports(efa_storage: bool) -> None:
    lustre = {"name": "data", "mount": "/fsx", "capacity_gib": 38400, "efa": efa_storage}
    network = synthesize(storage={"lustre": [lustre]}).network
    more = ALL if efa_storage else set()
    for direction in ("Ingress", "Egress"):
        assert ports(network, direction, "Compute", "Compute") == ALL
        assert ports(network, direction, "Lustre", "Lustre") == LUSTRE | more
        for node in ("Head", "Compute", "Login"):
            wanted = LUSTRE | (more if node == "Compute" else set())
            assert ports(network, direction, "Lustre", node) == wanted
            assert ports(network, direction, node, "Lustre") == wanted
    for node in ("Head", "Compute", "Login"):
        assert ports(network, "Ingress", "OpenZfs", node) == NFS
        assert ports(network, "Egress", node, "OpenZfs") == NFS
        assert ports(network, "Egress", "OpenZfs", node) == set()
    assert opened(network) == {}


def test_clients_come_in_by_ssh_and_nothing_else() -> None:
    network = synthesize(network={"clients": ["203.0.113.0/24"]}).network
    ssh = {("203.0.113.0/24", 22)}
    assert opened(network) == {"Head node": ssh, "Login nodes": ssh}
    for group in network.find_resources("AWS::EC2::SecurityGroup").values():
        for rule in group["Properties"].get("SecurityGroupEgress", []):
            # What CDK writes for "nothing": EC2 would add a rule for everything to an empty list.
            assert rule["CidrIp"] == "255.255.255.255/32"


def test_rules_have_the_same_ids_in_a_stage() -> None:
    stage = cdk.Stage(app_without_bundling(), "Promotion")
    network, *_ = build(stage, environment())
    plain = synthesize().network.to_json()["Resources"]
    assert set(Template.from_stack(network).to_json()["Resources"]) == set(plain)

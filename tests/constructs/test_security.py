"""The security groups: who may reach whom."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from tests.constructs.stacks_of import Stacks, build, environment, synthesize

LUSTRE = {("tcp", 988, 988), ("tcp", 1018, 1023)}
NFS = {(protocol, *ports) for protocol in ("tcp", "udp") for ports in ((111, 111), (2049, 2049), (20001, 20003))}
ALL = {("-1", None, None)}


@pytest.fixture(scope="module")
def made() -> Stacks:
    return synthesize(environment(network={"clients": ["203.0.113.0/24"]}))


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


@pytest.mark.parametrize("direction", ["Ingress", "Egress"])
def test_efa_goes_from_the_compute_group_to_itself(made: Stacks, direction: str) -> None:
    assert ports(made.network, direction, "Compute", "Compute") == ALL


@pytest.mark.parametrize("node", ["Head", "Compute", "Login"])
def test_lustre_and_its_clients_reach_each_other_on_its_ports(made: Stacks, node: str) -> None:
    for direction in ("Ingress", "Egress"):
        assert ports(made.network, direction, "Lustre", node) == LUSTRE
        assert ports(made.network, direction, node, "Lustre") == LUSTRE


def test_lustre_servers_reach_each_other(made: Stacks) -> None:
    assert ports(made.network, "Ingress", "Lustre", "Lustre") == LUSTRE


@pytest.mark.parametrize("node", ["Head", "Compute", "Login"])
def test_nodes_reach_openzfs_by_nfs(made: Stacks, node: str) -> None:
    assert ports(made.network, "Ingress", "OpenZfs", node) == NFS
    assert ports(made.network, "Egress", node, "OpenZfs") == NFS
    assert ports(made.network, "Egress", "OpenZfs", node) == set()


def test_efa_storage_opens_all_traffic_between_lustre_and_compute_nodes_alone() -> None:
    lustre = {"name": "data", "mount": "/fsx", "capacity_gib": 38400, "efa": True}
    network = synthesize(environment(storage={"lustre": [lustre]})).network
    for direction in ("Ingress", "Egress"):
        for of, other in (("Lustre", "Lustre"), ("Lustre", "Compute"), ("Compute", "Lustre")):
            assert ports(network, direction, of, other) == ALL | LUSTRE
        assert ports(network, direction, "Lustre", "Head") == LUSTRE


def test_nobody_may_come_in_without_clients() -> None:
    groups = synthesize(environment()).network.find_resources("AWS::EC2::SecurityGroup").values()
    assert not [group for group in groups if "SecurityGroupIngress" in group["Properties"]]


def opened(template: Template) -> dict[str, set[tuple[str, int]]]:
    """By group: the networks and ports that it lets in."""
    return {
        group["Properties"]["GroupDescription"].split(":")[0]: {
            (rule["CidrIp"], rule["FromPort"]) for rule in group["Properties"].get("SecurityGroupIngress", [])
        }
        for group in template.find_resources("AWS::EC2::SecurityGroup").values()
    }


def test_clients_come_in_by_ssh_to_head_and_login_nodes(made: Stacks) -> None:
    ssh = {("203.0.113.0/24", 22)}
    assert {name: rules for name, rules in opened(made.network).items() if rules} == {
        "Head node": ssh,
        "Login nodes": ssh,
    }


def test_grafana_is_opened_on_the_head_node_when_asked() -> None:
    network = synthesize(environment(network={"clients": ["203.0.113.0/24"], "grafana": True})).network
    assert opened(network)["Head node"] == {("203.0.113.0/24", 22), ("203.0.113.0/24", 443)}
    assert opened(network)["Login nodes"] == {("203.0.113.0/24", 22)}


def test_no_group_lets_anything_out_to_the_internet(made: Stacks) -> None:
    for group in made.network.find_resources("AWS::EC2::SecurityGroup").values():
        for rule in group["Properties"].get("SecurityGroupEgress", []):
            # What CDK writes for "nothing": EC2 would add a rule for everything to an empty list.
            assert rule["CidrIp"] == "255.255.255.255/32"


def test_rules_have_the_same_ids_in_a_stage() -> None:
    settings = environment()
    app = cdk.App(context={"aws:cdk:bundling-stacks": []}, builtin_cloud_formation_validation=False)
    stage = cdk.Stage(app, "Promotion")
    network, *_ = build(stage, settings)
    plain = synthesize(settings).network.to_json()["Resources"]
    assert set(Template.from_stack(network).to_json()["Resources"]) == set(plain)

"""The network: addresses, ways out, endpoints, and an existing VPC."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from aws_cdk.assertions import Match, Template

from tests.cluster_config.references import references
from tests.constructs.stacks_of import Stacks, app_without_bundling, build, environment, only, synthesize
from tests.settings.examples import EXISTING
from trainyard.addresses import split
from trainyard.cluster_config import render

pytestmark = pytest.mark.xdist_group("constructs-network")

ENDPOINTS = ("cloudformation", "ec2", "logs", "monitoring", "ssm", "ssmmessages", "ecr.api", "ecr.dkr")


@pytest.fixture(scope="module")
def existing() -> Stacks:
    openzfs = {"capacity_gib": 64, "volumes": [{"name": "home", "mount": "/home"}]}
    return synthesize(network={"existing": EXISTING}, storage={"openzfs": openzfs})


@pytest.mark.parametrize(
    ("cidr", "private", "public"),
    [
        ("10.0.0.0/16", "10.0.0.0/17", "10.0.128.0/24"),
        ("10.1.0.0/20", "10.1.0.0/21", "10.1.8.0/24"),
        ("10.1.2.0/24", "10.1.2.0/25", "10.1.2.128/26"),
    ],
)
def test_private_subnet_gets_half_of_the_addresses(cidr: str, private: str, public: str) -> None:
    assert split(cidr) == (private, public)


def test_subnets_are_in_the_zone_of_the_capacity_by_its_id_and_synthesis_looks_nothing_up() -> None:
    made = synthesize(network={"flow_log_days": 7})
    made.network.resource_count_is("AWS::EC2::Subnet", 2)
    made.network.all_resources_properties(
        "AWS::EC2::Subnet",
        {"AvailabilityZoneId": "euc1-az2", "AvailabilityZone": Match.absent(), "MapPublicIpOnLaunch": False},
    )
    manifest = json.loads((Path(made.assembly.directory) / "manifest.json").read_text())
    assert "missing" not in manifest
    made.network.has_resource_properties("AWS::Logs::LogGroup", {"RetentionInDays": 7})
    # No file systems would be lost.
    assert "DeletionPolicy" not in only(made.network, "AWS::EC2::VPC")


def test_endpoints_only_has_no_way_to_the_internet_and_reaches_what_a_cluster_calls() -> None:
    closed = synthesize(network={"egress": "endpoints-only"}).network
    for kind in ("NatGateway", "InternetGateway", "EIP", "Route"):
        closed.resource_count_is(f"AWS::EC2::{kind}", 0)
    closed.resource_count_is("AWS::EC2::Subnet", 1)
    for service in (*ENDPOINTS, "sts"):
        endpoint = only(closed, "AWS::EC2::VPCEndpoint", ServiceName=f"com.amazonaws.eu-central-1.{service}")
        assert endpoint["Properties"]["PrivateDnsEnabled"] is True
    group = only(closed, "AWS::EC2::SecurityGroup", GroupDescription="AWS service endpoints")
    [rule] = group["Properties"]["SecurityGroupIngress"]
    assert (rule["CidrIp"], rule["IpProtocol"], rule["FromPort"], rule["ToPort"]) == ("10.0.0.0/16", "tcp", 443, 443)


def ways_out(template: Mapping[str, Any], subnet: str, has_address: bool) -> set[str]:
    """How a node in the private or public subnet reaches the internet, S3, DynamoDB and other services of AWS."""
    resources = template["Resources"]

    def of(kind: str) -> list[dict[str, Any]]:
        return [item["Properties"] for item in resources.values() if item["Type"] == f"AWS::EC2::{kind}"]

    [subnet_id] = [key for key in resources if key.startswith(f"Network{subnet}Subnet")]
    [table] = [
        item["RouteTableId"] for item in of("SubnetRouteTableAssociation") if item["SubnetId"] == {"Ref": subnet_id}
    ]
    ways = set()
    for route in (item for item in of("Route") if item["RouteTableId"] == table):
        assert route["DestinationCidrBlock"] == "0.0.0.0/0"
        # An internet gateway translates public addresses only.
        if "NatGatewayId" in route or has_address or resources[subnet_id]["Properties"]["MapPublicIpOnLaunch"]:
            ways.add("internet")
    for endpoint in of("VPCEndpoint"):
        if table in endpoint.get("RouteTableIds", []):
            ways.add(str(endpoint["ServiceName"]["Fn::Join"][1][-1]).lstrip("."))
        elif {"Ref": subnet_id} in endpoint.get("SubnetIds", []):
            ways.add(endpoint["ServiceName"].removeprefix("com.amazonaws.eu-central-1."))
    return ways


@pytest.mark.parametrize(
    ("egress", "head", "login"),
    [
        *(("nat", head, login) for head in ("private", "public") for login in ("none", "private", "public")),
        # A rule refuses public nodes here.
        *(("endpoints-only", "private", login) for login in ("none", "private")),
    ],
)
def test_every_node_has_an_address_and_a_route_out(egress: str, head: str, login: str) -> None:
    settings = environment(
        network={"egress": egress, "clients": ["203.0.113.0/24"]},
        cluster={"head_node": {"subnet": head}, **({} if login == "none" else {"login_nodes": {"subnet": login}})},
    )
    template = Template.from_stack(build(app_without_bundling(), settings)[0]).to_json()
    head_node = cast(dict[str, Any], render(settings, references(settings)))["HeadNode"]["Networking"]
    wanted = {"internet"} if egress == "nat" else {*ENDPOINTS, "sts"}
    elastic = head_node.get("ElasticIp", False)
    assert elastic is (head == "public")
    assert ways_out(template, head.title(), elastic) >= {"s3", "dynamodb", *wanted}
    assert ways_out(template, "Private", has_address=False) >= {"s3", "dynamodb", *wanted}
    if login != "none":
        assert ways_out(template, login.title(), has_address=False) >= {"s3", "dynamodb", *wanted}


def test_an_existing_vpc_gets_security_groups_and_nothing_else(existing: Stacks) -> None:
    kinds = {resource["Type"] for resource in existing.network.to_json()["Resources"].values()}
    assert kinds == {
        "AWS::EC2::SecurityGroup",
        "AWS::EC2::SecurityGroupIngress",
        "AWS::EC2::SecurityGroupEgress",
    }
    existing.network.all_resources_properties("AWS::EC2::SecurityGroup", {"VpcId": "vpc-0123456789abcdef0"})
    existing.storage.has_resource_properties("AWS::FSx::FileSystem", {"SubnetIds": ["subnet-0123456789abcdef0"]})


@pytest.mark.parametrize(("retention", "policy"), [("keep", "RetainExceptOnCreate"), ("delete", None)])
def test_kept_file_systems_keep_their_subnet(retention: str, policy: str | None) -> None:
    lustre = {"lustre": [{"name": "data", "mount": "/fsx", "capacity_gib": 1200}]}
    network = synthesize(storage=lustre, retention={"file_systems": retention}).network
    assert only(network, "AWS::EC2::VPC").get("DeletionPolicy") == policy
    policies = [subnet.get("DeletionPolicy") for subnet in network.find_resources("AWS::EC2::Subnet").values()]
    assert sorted(policies, key=str) == [None, policy]

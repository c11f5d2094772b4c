"""The network: addresses, ways out, endpoints, and an existing VPC."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from aws_cdk.assertions import Match

from tests.constructs.stacks_of import Stacks, environment, only, synthesize
from trainyard.addresses import split


@pytest.fixture(scope="module")
def made() -> Stacks:
    return synthesize(environment())


@pytest.fixture(scope="module")
def closed() -> Stacks:
    return synthesize(environment(network={"egress": "endpoints-only"}))


@pytest.fixture(scope="module")
def existing() -> Stacks:
    return synthesize(
        environment(
            network={
                "existing": {
                    "vpc_id": "vpc-0123456789abcdef0",
                    "vpc_cidr": "172.16.0.0/16",
                    "private_subnet_id": "subnet-0123456789abcdef0",
                }
            },
            storage={"openzfs": {"capacity_gib": 64, "volumes": [{"name": "home", "mount": "/home"}]}},
        )
    )


@pytest.mark.parametrize(
    ("cidr", "private", "public"),
    [
        ("10.0.0.0/16", "10.0.0.0/17", "10.0.128.0/24"),
        ("10.1.0.0/20", "10.1.0.0/21", "10.1.8.0/24"),
        ("10.1.2.0/24", "10.1.2.0/25", "10.1.2.128/26"),
    ],
)
def test_private_subnet_gets_half_of_the_addresses(cidr: str, private: str, public: str) -> None:
    assert (split(cidr).private, split(cidr).public) == (private, public)


def test_a_vpc_outside_of_the_range_is_refused() -> None:
    with pytest.raises(ValueError, match="/16 to /24"):
        split("10.0.0.0/25")


def test_subnets_stand_in_the_zone_of_the_capacity_by_its_id(made: Stacks) -> None:
    made.network.resource_count_is("AWS::EC2::Subnet", 2)
    made.network.all_resources_properties(
        "AWS::EC2::Subnet",
        {"AvailabilityZoneId": "euc1-az2", "AvailabilityZone": Match.absent(), "MapPublicIpOnLaunch": False},
    )


def test_synthesis_looks_nothing_up(made: Stacks) -> None:
    manifest = json.loads((Path(made.assembly.directory) / "manifest.json").read_text())
    assert "missing" not in manifest


def test_private_nodes_go_out_by_nat(made: Stacks) -> None:
    made.network.has_resource_properties(
        "AWS::EC2::Route",
        {
            "DestinationCidrBlock": "0.0.0.0/0",
            "NatGatewayId": Match.any_value(),
            "RouteTableId": {"Ref": Match.string_like_regexp("PrivateRouteTable")},
        },
    )


def test_s3_and_dynamodb_are_reached_by_gateway_endpoints(made: Stacks) -> None:
    endpoints = made.network.find_resources("AWS::EC2::VPCEndpoint").values()
    assert [endpoint["Properties"]["VpcEndpointType"] for endpoint in endpoints] == ["Gateway", "Gateway"]


def test_all_traffic_is_logged_for_the_days_of_the_settings() -> None:
    network = synthesize(environment(network={"flow_log_days": 7})).network
    network.has_resource_properties("AWS::EC2::FlowLog", {"ResourceType": "VPC", "TrafficType": "ALL"})
    network.has_resource_properties("AWS::Logs::LogGroup", {"RetentionInDays": 7})


def test_default_security_group_is_closed_in_both_directions(made: Stacks) -> None:
    calls = [
        str(resource["Properties"]["Create"])
        for resource in made.network.find_resources("Custom::ClosedDefaultSecurityGroup").values()
    ]
    assert len(calls) == 2
    for direction in ("RevokeSecurityGroupIngress", "RevokeSecurityGroupEgress"):
        assert sum(direction in call for call in calls) == 1
    assert all("DefaultSecurityGroup" in call for call in calls)


@pytest.mark.parametrize("kind", ["NatGateway", "InternetGateway", "EIP", "Route"])
def test_endpoints_only_has_no_way_to_the_internet(closed: Stacks, kind: str) -> None:
    closed.network.resource_count_is(f"AWS::EC2::{kind}", 0)
    closed.network.resource_count_is("AWS::EC2::Subnet", 1)


@pytest.mark.parametrize("service", ["cloudformation", "ec2", "logs", "ssm", "ssmmessages", "ecr.dkr", "sts"])
def test_endpoints_only_reaches_what_a_cluster_calls(closed: Stacks, service: str) -> None:
    endpoint = only(closed.network, "AWS::EC2::VPCEndpoint", ServiceName=f"com.amazonaws.eu-central-1.{service}")
    assert endpoint["Properties"]["PrivateDnsEnabled"] is True


def test_login_nodes_and_accounting_add_their_endpoints() -> None:
    settings = environment(network={"egress": "endpoints-only"}).model_dump()
    settings["cluster"] |= {
        "login_nodes": {},
        "slurm": {
            "accounting": {
                "uri": "db",
                "user": "slurm",
                "password_secret_arn": "arn:aws:secretsmanager:eu-central-1:111122223333:secret:db",
            }
        },
    }
    network = synthesize(environment(**settings)).network
    names = [item["Properties"]["ServiceName"] for item in network.find_resources("AWS::EC2::VPCEndpoint").values()]
    for service in ("elasticloadbalancing", "autoscaling", "secretsmanager"):
        assert f"com.amazonaws.eu-central-1.{service}" in names


def test_endpoints_open_to_the_vpc_on_https_alone(closed: Stacks) -> None:
    group = only(closed.network, "AWS::EC2::SecurityGroup", GroupDescription="AWS service endpoints")
    assert group["Properties"]["SecurityGroupIngress"] == [
        {
            "CidrIp": "10.0.0.0/16",
            "Description": "HTTPS from the VPC",
            "FromPort": 443,
            "IpProtocol": "tcp",
            "ToPort": 443,
        }
    ]


def test_an_existing_vpc_gets_security_groups_and_nothing_else(existing: Stacks) -> None:
    kinds = {resource["Type"] for resource in existing.network.to_json()["Resources"].values()}
    assert kinds == {
        "AWS::EC2::SecurityGroup",
        "AWS::EC2::SecurityGroupIngress",
        "AWS::EC2::SecurityGroupEgress",
    }
    existing.network.all_resources_properties("AWS::EC2::SecurityGroup", {"VpcId": "vpc-0123456789abcdef0"})


def test_file_systems_stand_in_the_existing_subnet(existing: Stacks) -> None:
    existing.storage.has_resource_properties("AWS::FSx::FileSystem", {"SubnetIds": ["subnet-0123456789abcdef0"]})


def test_kept_file_systems_keep_the_subnet_they_stand_in() -> None:
    lustre = {"lustre": [{"name": "data", "mount": "/fsx", "capacity_gib": 1200}]}
    kept = synthesize(environment(storage=lustre)).network
    assert only(kept, "AWS::EC2::VPC")["DeletionPolicy"] == "Retain"
    policies = {
        identifier: subnet.get("DeletionPolicy")
        for identifier, subnet in kept.find_resources("AWS::EC2::Subnet").items()
    }
    assert sorted(policies.values(), key=str) == [None, "Retain"]
    deleted = synthesize(environment(storage=lustre, retention={"file_systems": "delete"})).network
    assert "DeletionPolicy" not in only(deleted, "AWS::EC2::VPC")

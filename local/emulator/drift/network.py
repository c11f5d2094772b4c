"""The network: that it is there, and what of it can be changed in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ministack.services import ec2

from local.emulator.wire import call

Properties = dict[str, Any]
Read = Callable[[str, Properties], Properties | None]


def _recorded(store: str, *keys: str) -> Read:
    """Reads a record of EC2 by its id, with its tags."""

    def read(physical_id: str, _properties: Properties) -> Properties | None:
        record = getattr(ec2, store).get(physical_id)
        if record is None or record.get("State") == "deleted":
            return None
        return {**{key: record.get(key) for key in keys}, "Tags": ec2._tags.get(physical_id, [])}

    return read


def _rule(physical_id: str, properties: Properties) -> Properties | None:
    group = str(properties["GroupId"])
    rules = call("DescribeSecurityGroupRules", Filters=[{"Name": "group-id", "Values": [group]}])["SecurityGroupRules"]
    for rule in rules:
        if rule["SecurityGroupRuleId"] == physical_id:
            return {"Description": rule.get("Description", "")}
    return None


def _route(_physical_id: str, properties: Properties) -> Properties | None:
    table = ec2._route_tables.get(properties["RouteTableId"], {})
    for route in table.get("Routes", []):
        if route.get("DestinationCidrBlock") == properties.get("DestinationCidrBlock"):
            targets = ("GatewayId", "NatGatewayId")
            return {key: route.get(key) for key in targets if key in properties}
    return None


def _address(physical_id: str, _properties: Properties) -> Properties | None:
    for key, record in ec2._addresses.items():
        if record["PublicIp"] == physical_id:
            return {"Tags": ec2._tags.get(key, [])}
    return None


READERS = {
    "AWS::EC2::VPC": (_recorded("_vpcs", "CidrBlock"), ("CidrBlock", "Tags")),
    "AWS::EC2::Subnet": (
        _recorded("_subnets", "CidrBlock", "MapPublicIpOnLaunch"),
        ("CidrBlock", "MapPublicIpOnLaunch", "Tags"),
    ),
    "AWS::EC2::InternetGateway": (_recorded("_internet_gateways"), ("Tags",)),
    "AWS::EC2::RouteTable": (_recorded("_route_tables"), ("Tags",)),
    "AWS::EC2::Route": (_route, ("GatewayId", "NatGatewayId")),
    "AWS::EC2::NatGateway": (_recorded("_nat_gateways"), ("Tags",)),
    "AWS::EC2::EIP": (_address, ("Tags",)),
    "AWS::EC2::FlowLog": (_recorded("_flow_logs"), ()),
    "AWS::EC2::VPCEndpoint": (_recorded("_vpc_endpoints"), ()),
    "AWS::EC2::SecurityGroup": (_recorded("_security_groups"), ("Tags",)),
    "AWS::EC2::SecurityGroupIngress": (_rule, ("Description",)),
    "AWS::EC2::SecurityGroupEgress": (_rule, ("Description",)),
}

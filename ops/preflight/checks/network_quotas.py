"""Quotas of a new network: VPCs, elastic IP addresses, NAT gateways of the zone."""

from __future__ import annotations

from collections.abc import Iterator

from ops.preflight.context import CheckContext
from ops.preflight.quotas import Quota
from ops.preflight.results import CheckResult, note

VPCS = Quota("vpc", "VPCs per Region", "L-F678F1CE")
ADDRESSES = Quota("ec2", "EC2-VPC Elastic IPs", "L-0263D0A3")
NAT_GATEWAYS = Quota("vpc", "NAT gateways per Availability Zone", "L-FE5A380F")


def check(context: CheckContext) -> Iterator[CheckResult]:
    """What a new VPC adds. An existing network adds nothing."""
    aws, network, deployed = context.aws, context.environment.network, context.deployed
    if network.existing:
        subject, found = "VPCs, elastic IP addresses, NAT gateways", f"{network.existing.vpc_id} exists already"
        yield note("quotas", subject, found, "none is created in an existing network")
        return
    vpcs = {item["VpcId"] for item in aws.items("ec2", "describe_vpcs", "Vpcs")}
    others = len(vpcs - deployed.ids("AWS::EC2::VPC"))
    yield context.counted(VPCS, ours=1, others=others, unit="VPCs", asked="ec2:DescribeVpcs")
    if network.egress != "nat":
        return
    addresses = aws.call("ec2", "describe_addresses")["Addresses"]
    # The physical id of an address is the address, or the address and its allocation id.
    ours = {part for name in deployed.ids("AWS::EC2::EIP") for part in name.split("|")}
    others = sum(not {item.get("PublicIp"), item.get("AllocationId")} & ours for item in addresses)
    yield context.counted(ADDRESSES, ours=1, others=others, unit="addresses", asked="ec2:DescribeAddresses")
    in_zone = [{"Name": "availability-zone-id", "Values": [network.zone]}]
    subnets = {item["SubnetId"] for item in aws.items("ec2", "describe_subnets", "Subnets", Filters=in_zone)}
    gateways = {
        item["NatGatewayId"]
        for item in aws.items("ec2", "describe_nat_gateways", "NatGateways")
        if item["State"] in ("pending", "available", "deleting") and item.get("SubnetId") in subnets
    }
    others = len(gateways - deployed.ids("AWS::EC2::NatGateway"))
    unit = f"gateways in {network.zone}"
    yield context.counted(NAT_GATEWAYS, ours=1, others=others, unit=unit, asked="ec2:DescribeNatGateways")

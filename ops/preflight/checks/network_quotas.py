"""Quotas of a new network: VPCs, elastic IP addresses, NAT gateways of the zone."""

from __future__ import annotations

from collections.abc import Iterator

from ops.preflight.checks.counted import counted
from ops.preflight.line import Line, Verdict
from ops.preflight.question import Question
from ops.preflight.quotas import Quota

CHECK = "quotas"
VPCS = Quota("vpc", "VPCs per Region", "L-F678F1CE")
ADDRESSES = Quota("ec2", "EC2-VPC Elastic IPs", "L-0263D0A3")
NAT_GATEWAYS = Quota("vpc", "NAT gateways per Availability Zone", "L-FE5A380F")


def check(question: Question) -> Iterator[Line]:
    """What a new VPC takes; an existing one takes nothing more."""
    network, standing = question.environment.network, question.standing
    if network.existing:
        yield Line(
            CHECK,
            "VPCs, elastic IP addresses, NAT gateways",
            "nothing",
            f"{network.existing.vpc_id} stands already",
            "none is made in an existing network",
            Verdict.NOTE,
        )
        return
    vpcs = {item["VpcId"] for item in question.aws.items("ec2", "describe_vpcs", "Vpcs")}
    others = len(vpcs - standing.ids("AWS::EC2::VPC"))
    yield counted(question, VPCS, ours=1, others=others, unit="VPCs", asked="ec2:DescribeVpcs")
    if network.egress != "nat":
        return
    addresses = question.aws.call("ec2", "describe_addresses")["Addresses"]
    # A stack knows its address by the address itself, or by that and the id of its allocation.
    ours = {part for name in standing.ids("AWS::EC2::EIP") for part in name.split("|")}
    taken = [item for item in addresses if not {item.get("PublicIp"), item.get("AllocationId")} & ours]
    yield counted(question, ADDRESSES, ours=1, others=len(taken), unit="addresses", asked="ec2:DescribeAddresses")
    subnets = {
        item["SubnetId"]
        for item in question.aws.items(
            "ec2",
            "describe_subnets",
            "Subnets",
            Filters=[{"Name": "availability-zone-id", "Values": [network.zone]}],
        )
    }
    gateways = {
        item["NatGatewayId"]
        for item in question.aws.items("ec2", "describe_nat_gateways", "NatGateways")
        if item["State"] in ("pending", "available", "deleting") and item.get("SubnetId") in subnets
    }
    yield counted(
        question,
        NAT_GATEWAYS,
        ours=1,
        others=len(gateways - standing.ids("AWS::EC2::NatGateway")),
        unit=f"gateways in {network.zone}",
        asked="ec2:DescribeNatGateways",
    )

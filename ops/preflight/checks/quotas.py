"""Quotas of FSx file systems (number and capacity, for OpenZFS throughput and IOPS) and of a new network.

Names and codes as Service Quotas lists them; AWS's FSx guides, "Quotas", name the same (read on 2026-11-21). There is
no quota on the throughput of Lustre on SSD: it comes with the capacity.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ops.preflight.context import CheckContext
from ops.preflight.quotas import Quota
from ops.preflight.results import CheckResult, note

LUSTRE_COUNT = Quota("fsx", "Lustre Persistent_2 file systems", "L-FD6F2F22")
LUSTRE_CAPACITY = Quota("fsx", "Lustre Persistent_2 storage capacity", "L-8F1B9C74")
OPENZFS_COUNT = Quota("fsx", "OpenZFS file systems", "L-59D0763F")
OPENZFS_CAPACITY = Quota("fsx", "OpenZFS SSD storage capacity", "L-88479C21")
OPENZFS_THROUGHPUT = Quota("fsx", "OpenZFS throughput capacity", "L-4EDE4065")
OPENZFS_IOPS = Quota("fsx", "OpenZFS disk IOPS", "L-E24B4DE4")
VPCS = Quota("vpc", "VPCs per Region", "L-F678F1CE")
ADDRESSES = Quota("ec2", "EC2-VPC Elastic IPs", "L-0263D0A3")
NAT_GATEWAYS = Quota("vpc", "NAT gateways per Availability Zone", "L-FE5A380F")
IOPS_PER_GIB = 3
"""FSx's default, which Trainyard does not change."""


def file_systems(context: CheckContext) -> Iterator[CheckResult]:
    """The file systems of the file together with those of others in the account."""
    storage, openzfs = context.environment.storage, context.environment.storage.openzfs
    ours = context.ids("AWS::FSx::FileSystem")
    others = [system for system in context.file_systems if system["FileSystemId"] not in ours]
    lustres = [s for s in others if s.get("LustreConfiguration", {}).get("DeploymentType") == "PERSISTENT_2"]
    same = [system for system in others if system["FileSystemType"] == "OPENZFS"]
    rows: list[tuple[Quota, float, float, str]] = []
    if storage.lustre:
        capacity = sum(lustre.capacity_gib for lustre in storage.lustre)
        rows += [
            (LUSTRE_COUNT, len(storage.lustre), len(lustres), "file systems"),
            (LUSTRE_CAPACITY, capacity, sum(map(_capacity, lustres)), "GiB"),
        ]
        throughput = sum(lustre.throughput_mb_s for lustre in storage.lustre)
        yield note("throughput of Lustre on SSD", "no quota", f"{throughput} MB/s; it comes with the capacity")
    if openzfs:
        throughputs = [float(system.get("OpenZFSConfiguration", {}).get("ThroughputCapacity") or 0) for system in same]
        rows += [
            (OPENZFS_COUNT, 1, len(same), "file systems"),
            (OPENZFS_CAPACITY, openzfs.capacity_gib, sum(map(_capacity, same)), "GiB"),
            (OPENZFS_THROUGHPUT, openzfs.throughput, sum(throughputs), "MB/s"),
            (OPENZFS_IOPS, IOPS_PER_GIB * openzfs.capacity_gib, sum(map(_iops, same)), "IOPS"),
        ]
    for quota, need, taken, unit in rows:
        yield context.quotas.check(quota, need, taken, unit, asked="fsx:DescribeFileSystems")


def _capacity(system: dict[str, Any]) -> float:
    return float(system.get("StorageCapacity") or 0)


def _iops(system: dict[str, Any]) -> float:
    disk = system.get("OpenZFSConfiguration", {}).get("DiskIopsConfiguration", {})
    return float(disk.get("Iops") or IOPS_PER_GIB * _capacity(system))


def network(context: CheckContext) -> Iterator[CheckResult]:
    """A VPC, an elastic IP address and a NAT gateway of the zone. An existing network adds nothing."""
    aws, wanted = context.aws, context.environment.network
    if wanted.existing:
        subject, found = "VPCs, elastic IP addresses, NAT gateways", f"{wanted.existing.vpc_id} exists already"
        yield note(subject, found, "none is created in an existing network")
        return
    vpcs = {item["VpcId"] for item in aws.items("ec2", "describe_vpcs", "Vpcs")}
    yield context.quotas.check(VPCS, 1, len(vpcs - context.ids("AWS::EC2::VPC")), "VPCs", asked="ec2:DescribeVpcs")
    if wanted.egress != "nat":
        return
    addresses = aws.call("ec2", "describe_addresses")["Addresses"]
    # The physical id of an address is the address, or the address and its allocation id.
    ours = {part for name in context.ids("AWS::EC2::EIP") for part in name.split("|")}
    others = sum(not {item.get("PublicIp"), item.get("AllocationId")} & ours for item in addresses)
    yield context.quotas.check(ADDRESSES, 1, others, "addresses", asked="ec2:DescribeAddresses")
    in_zone = [{"Name": "availability-zone-id", "Values": [wanted.zone]}]
    subnets = {item["SubnetId"] for item in aws.items("ec2", "describe_subnets", "Subnets", Filters=in_zone)}
    gateways = {
        item["NatGatewayId"]
        for item in aws.items("ec2", "describe_nat_gateways", "NatGateways")
        if item["State"] in ("pending", "available", "deleting") and item.get("SubnetId") in subnets
    }
    others, unit = len(gateways - context.ids("AWS::EC2::NatGateway")), f"gateways in {wanted.zone}"
    yield context.quotas.check(NAT_GATEWAYS, 1, others, unit, asked="ec2:DescribeNatGateways")

"""Quotas of FSx file systems (number and capacity, for OpenZFS throughput and IOPS) and of a new network.

Names and codes as Service Quotas lists them; AWS's FSx guides, "Quotas", name the same (read on 2026-11-21). There is
no quota on the throughput of Lustre on SSD: it comes with the capacity.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ops.preflight.context import CheckContext, Quota
from ops.preflight.results import CheckResult, Verdict, judged, note


def check(
    context: CheckContext,
    quota: Quota,
    ours: float,
    others: float,
    unit: str,
    *,
    asked: str,
    reasons: str = "this environment",
) -> CheckResult:
    """Whether a quota allows what the environment has or adds, together with the others in the account.

    It is found by its code, or by its name if the code is unknown or has changed.

    Args:
        ours, others: what the environment needs for `reasons`, and what the rest of the account has.
        asked: the call that counted the others.
    """
    total = ours + others
    calls = f"servicequotas:ListServiceQuotas, {asked}"
    wanted = f"{total:g} {unit}: {ours:g} for {reasons}" + (f", {others:g} of others" if others else "")
    # The applied values lack quotas that were never changed.
    applied = _find(quota, context.quotas(quota.service, "list_service_quotas"))
    known = applied or _find(quota, context.quotas(quota.service, "list_aws_default_service_quotas"))
    if known is None:
        subject = f"{quota.name} ({quota.code or 'by name'})"
        todo = f"look for it in the console, under Service Quotas, {quota.service}"
        return CheckResult(subject, calls, "Service Quotas does not list it", wanted, Verdict.UNKNOWN, todo)
    value, code = float(known["Value"]), known["QuotaCode"]
    found = f"{value:g} {unit}{'' if applied else ', the default'}"
    todo = (
        "request an increase, which may take days: aws service-quotas request-service-quota-increase "
        f"--region {context.environment.region} --service-code {quota.service} --quota-code {code} "
        f"--desired-value {total:g}"
    )
    return judged(f"{quota.name} ({code})", calls, found, wanted, ok=value >= total, todo=todo)


def _find(quota: Quota, listed: list[dict[str, Any]]) -> dict[str, Any] | None:
    by_code = (item for item in listed if item["QuotaCode"] == quota.code)
    by_name = (item for item in listed if _normal(item["QuotaName"]) == _normal(quota.name))
    return next(by_code, None) or next(by_name, None)


def _normal(name: str) -> str:
    return "".join(name.lower().split())


# Each with its unit, in the order of `_figures`.
_LUSTRE = {
    deployment: (
        (Quota("fsx", f"Lustre {called} file systems", number), "file systems"),
        (Quota("fsx", f"Lustre {called} storage capacity", capacity), "GiB"),
    )
    for deployment, called, number, capacity in (
        ("PERSISTENT_2", "Persistent_2", "L-FD6F2F22", "L-8F1B9C74"),
        ("PERSISTENT_1", "Persistent_1", "L-9AFA1F09", "L-C8640C82"),
        ("SCRATCH_2", "Scratch", "L-C48231E5", "L-AD2FC696"),
    )
}
_OPENZFS = (
    (Quota("fsx", "OpenZFS file systems", "L-59D0763F"), "file systems"),
    (Quota("fsx", "OpenZFS SSD storage capacity", "L-88479C21"), "GiB"),
    (Quota("fsx", "OpenZFS throughput capacity", "L-4EDE4065"), "MB/s"),
    (Quota("fsx", "OpenZFS disk IOPS", "L-E24B4DE4"), "IOPS"),
)
_VPCS = Quota("vpc", "VPCs per Region", "L-F678F1CE")
_ADDRESSES = Quota("ec2", "EC2-VPC Elastic IPs", "L-0263D0A3")
_NAT_GATEWAYS = Quota("vpc", "NAT gateways per Availability Zone", "L-FE5A380F")
IOPS_PER_GIB = 3
"""FSx's default, which Trainyard does not change."""


def file_systems(context: CheckContext) -> Iterator[CheckResult]:
    """The file systems of the file together with those of others in the account."""
    storage = context.environment.storage
    ours = context.ids("AWS::FSx::FileSystem")
    others = [system for system in context.file_systems if system["FileSystemId"] not in ours]
    for deployment, quotas in _LUSTRE.items():
        wanted = [lustre.capacity_gib for lustre in storage.lustre if lustre.deployment == deployment]
        # SCRATCH_1 and SCRATCH_2 share their quotas.
        kind = deployment.replace("SCRATCH_2", "SCRATCH")
        same = [s for s in others if s.get("LustreConfiguration", {}).get("DeploymentType", "").startswith(kind)]
        if wanted:
            yield from _counted(context, quotas, (len(wanted), sum(wanted)), same)
    if storage.lustre:
        throughput = sum(lustre.throughput_mb_s for lustre in storage.lustre)
        yield note("throughput of Lustre on SSD", "no quota", f"{throughput} MB/s; it comes with the capacity")
    if storage.openzfs:
        same = [system for system in others if system["FileSystemType"] == "OPENZFS"]
        capacity = storage.openzfs.capacity_gib
        need = (1, capacity, storage.openzfs.throughput, IOPS_PER_GIB * capacity)
        yield from _counted(context, _OPENZFS, need, same)


def _counted(
    context: CheckContext, quotas: tuple[tuple[Quota, str], ...], needs: tuple[int, ...], others: list[dict[str, Any]]
) -> Iterator[CheckResult]:
    for index, ((quota, unit), need) in enumerate(zip(quotas, needs, strict=True)):
        taken = sum(_figures(system)[index] for system in others)
        yield check(context, quota, need, taken, unit, asked="fsx:DescribeFileSystems")


def _figures(system: dict[str, Any]) -> tuple[float, ...]:
    """Number, capacity, throughput and IOPS of a file system."""
    capacity, openzfs = float(system.get("StorageCapacity") or 0), system.get("OpenZFSConfiguration", {})
    iops = openzfs.get("DiskIopsConfiguration", {}).get("Iops") or IOPS_PER_GIB * capacity
    return 1, capacity, float(openzfs.get("ThroughputCapacity") or 0), float(iops)


def network(context: CheckContext) -> Iterator[CheckResult]:
    """A VPC, an elastic IP address and a NAT gateway of the zone. An existing network adds nothing."""
    aws, wanted = context.aws, context.environment.network
    if wanted.existing:
        subject, found = "VPCs, elastic IP addresses, NAT gateways", f"{wanted.existing.vpc_id} exists already"
        yield note(subject, found, "none is created in an existing network")
        return
    vpcs = {item["VpcId"] for item in aws.items("ec2", "describe_vpcs", "Vpcs")}
    yield check(context, _VPCS, 1, len(vpcs - context.ids("AWS::EC2::VPC")), "VPCs", asked="ec2:DescribeVpcs")
    if wanted.egress != "nat":
        return
    addresses = aws.call("ec2", "describe_addresses")["Addresses"]
    # The physical id of an address is the address, or the address and its allocation id.
    ours = {part for name in context.ids("AWS::EC2::EIP") for part in name.split("|")}
    others = sum(not {item.get("PublicIp"), item.get("AllocationId")} & ours for item in addresses)
    yield check(context, _ADDRESSES, 1, others, "addresses", asked="ec2:DescribeAddresses")
    in_zone = [{"Name": "availability-zone-id", "Values": [wanted.zone]}]
    subnets = {item["SubnetId"] for item in aws.items("ec2", "describe_subnets", "Subnets", Filters=in_zone)}
    gateways = {
        item["NatGatewayId"]
        for item in aws.items("ec2", "describe_nat_gateways", "NatGateways")
        if item["State"] in ("pending", "available", "deleting") and item.get("SubnetId") in subnets
    }
    others, unit = len(gateways - context.ids("AWS::EC2::NatGateway")), f"gateways in {wanted.zone}"
    yield check(context, _NAT_GATEWAYS, 1, others, unit, asked="ec2:DescribeNatGateways")

"""FSx quotas: number of file systems and capacity, and for OpenZFS throughput and IOPS.

Names and codes as Service Quotas lists them; AWS's FSx guides, "Quotas", name the same (read on 2026-11-21). There is
no quota on the throughput of Lustre on SSD: it comes with the capacity.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ops.preflight.context import CheckContext
from ops.preflight.quotas import Quota
from ops.preflight.results import CheckResult, note

CHECK = "quotas"
LUSTRE_COUNT = Quota("fsx", "Lustre Persistent_2 file systems", "L-FD6F2F22")
LUSTRE_CAPACITY = Quota("fsx", "Lustre Persistent_2 storage capacity", "L-8F1B9C74")
OPENZFS_COUNT = Quota("fsx", "OpenZFS file systems", "L-59D0763F")
OPENZFS_CAPACITY = Quota("fsx", "OpenZFS SSD storage capacity", "L-88479C21")
OPENZFS_THROUGHPUT = Quota("fsx", "OpenZFS throughput capacity", "L-4EDE4065")
OPENZFS_IOPS = Quota("fsx", "OpenZFS disk IOPS", "L-E24B4DE4")
IOPS_PER_GIB = 3
"""FSx's default, which Trainyard does not change."""


def check(context: CheckContext) -> Iterator[CheckResult]:
    """The file systems of the file together with those of others in the account."""
    storage = context.environment.storage
    ours = context.deployed.ids("AWS::FSx::FileSystem")
    others = [system for system in context.file_systems if system["FileSystemId"] not in ours]
    if storage.lustre:
        same = [s for s in others if s.get("LustreConfiguration", {}).get("DeploymentType") == "PERSISTENT_2"]
        capacity = sum(lustre.capacity_gib for lustre in storage.lustre)
        yield _counted(context, LUSTRE_COUNT, len(storage.lustre), len(same), "file systems")
        yield _counted(context, LUSTRE_CAPACITY, capacity, sum(map(_capacity, same)), "GiB")
        throughput = sum(lustre.throughput_mb_s for lustre in storage.lustre)
        wanted = f"{throughput} MB/s; it comes with the capacity"
        yield note(CHECK, "throughput of Lustre on SSD", "no quota", wanted)
    openzfs = storage.openzfs
    if openzfs:
        same = [system for system in others if system["FileSystemType"] == "OPENZFS"]
        iops = IOPS_PER_GIB * openzfs.capacity_gib
        yield _counted(context, OPENZFS_COUNT, 1, len(same), "file systems")
        yield _counted(context, OPENZFS_CAPACITY, openzfs.capacity_gib, sum(map(_capacity, same)), "GiB")
        yield _counted(context, OPENZFS_THROUGHPUT, openzfs.throughput, sum(map(_throughput, same)), "MB/s")
        yield _counted(context, OPENZFS_IOPS, iops, sum(map(_iops, same)), "IOPS")


def _counted(context: CheckContext, quota: Quota, ours: float, others: float, unit: str) -> CheckResult:
    return context.counted(quota, ours=ours, others=others, unit=unit, asked="fsx:DescribeFileSystems")


def _capacity(system: dict[str, Any]) -> float:
    return float(system.get("StorageCapacity") or 0)


def _throughput(system: dict[str, Any]) -> float:
    return float(system.get("OpenZFSConfiguration", {}).get("ThroughputCapacity") or 0)


def _iops(system: dict[str, Any]) -> float:
    disk = system.get("OpenZFSConfiguration", {}).get("DiskIopsConfiguration", {})
    return float(disk.get("Iops") or IOPS_PER_GIB * _capacity(system))

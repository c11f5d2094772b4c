"""FSx quotas: how many file systems, how much capacity, and for OpenZFS throughput and IOPS.

Names and codes as Service Quotas lists them; AWS's FSx guides, "Quotas", name the same (read on 2026-11-21). There is
none on the throughput of Lustre on SSD: it comes with the capacity, which has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ops.preflight.checks.counted import counted
from ops.preflight.line import Line, Verdict
from ops.preflight.question import Question
from ops.preflight.quotas import Quota

CHECK = "quotas"
LUSTRE_COUNT = Quota("fsx", "Lustre Persistent_2 file systems", "L-FD6F2F22")
LUSTRE_CAPACITY = Quota("fsx", "Lustre Persistent_2 storage capacity", "L-8F1B9C74")
OPENZFS_COUNT = Quota("fsx", "OpenZFS file systems", "L-59D0763F")
OPENZFS_CAPACITY = Quota("fsx", "OpenZFS SSD storage capacity", "L-88479C21")
OPENZFS_THROUGHPUT = Quota("fsx", "OpenZFS throughput capacity", "L-4EDE4065")
OPENZFS_IOPS = Quota("fsx", "OpenZFS disk IOPS", "L-E24B4DE4")
IOPS_A_GIB = 3
"""What FSx provides where nothing else is asked for, as Trainyard leaves it."""

_FILE_SYSTEM = "AWS::FSx::FileSystem"
_ASKED = "fsx:DescribeFileSystems"


def check(question: Question) -> Iterator[Line]:
    """The file systems of the file beside those of others; what stands of the environment counts as the file says."""
    storage = question.environment.storage
    ours = question.standing.ids(_FILE_SYSTEM)
    others = [system for system in question.file_systems if system["FileSystemId"] not in ours]
    if storage.lustre:
        there = [system for system in others if _is(system, "LUSTRE", "LustreConfiguration", ("PERSISTENT_2",))]
        capacity = sum(lustre.capacity_gib for lustre in storage.lustre)
        yield _counted(question, LUSTRE_COUNT, len(storage.lustre), len(there), "file systems")
        yield _counted(question, LUSTRE_CAPACITY, capacity, _sum(there, _capacity), "GiB")
        throughput = sum(lustre.throughput_mb_s for lustre in storage.lustre)
        yield Line(
            CHECK,
            "throughput of Lustre on SSD",
            "nothing",
            "no quota",
            f"{throughput} MB/s; it comes with the capacity",
            Verdict.NOTE,
        )
    openzfs = storage.openzfs
    if openzfs:
        there = [system for system in others if system["FileSystemType"] == "OPENZFS"]
        iops = IOPS_A_GIB * openzfs.capacity_gib
        yield _counted(question, OPENZFS_COUNT, 1, len(there), "file systems")
        yield _counted(question, OPENZFS_CAPACITY, openzfs.capacity_gib, _sum(there, _capacity), "GiB")
        yield _counted(question, OPENZFS_THROUGHPUT, openzfs.throughput, _sum(there, _throughput), "MB/s")
        yield _counted(question, OPENZFS_IOPS, iops, _sum(there, _iops), "IOPS")


def _counted(question: Question, quota: Quota, ours: float, others: float, unit: str) -> Line:
    return counted(question, quota, ours=ours, others=others, unit=unit, asked=_ASKED)


def _is(system: dict[str, Any], kind: str, part: str, deployments: tuple[str, ...]) -> bool:
    return system["FileSystemType"] == kind and system.get(part, {}).get("DeploymentType") in deployments


def _sum(systems: list[dict[str, Any]], amount: Callable[[dict[str, Any]], float]) -> float:
    return sum(amount(system) for system in systems)


def _capacity(system: dict[str, Any]) -> float:
    return float(system.get("StorageCapacity") or 0)


def _throughput(system: dict[str, Any]) -> float:
    return float(system.get("OpenZFSConfiguration", {}).get("ThroughputCapacity") or 0)


def _iops(system: dict[str, Any]) -> float:
    disk = system.get("OpenZFSConfiguration", {}).get("DiskIopsConfiguration", {})
    return float(disk.get("Iops") or IOPS_A_GIB * _capacity(system))

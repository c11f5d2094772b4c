"""FSx for Lustre and FSx for OpenZFS: capacity, throughput, backups, clients."""

from __future__ import annotations

from collections.abc import Iterator

from settings.faults import KeyPath
from settings.model import Environment
from settings.model.storage import Lustre, OpenZfs
from settings.rules.finding import Finding, for_each
from settings.rules.items import lustres, openzfs

SMALLEST_GIB = 1200
STEP_GIB = 2400
EFA_STEP_GIB = {125: 38400, 250: 19200, 500: 9600, 1000: 4800}
NO_EFA_CLIENT = ("rhel8", "rocky8")

FIRST_GENERATION = (64, 128, 256, 512, 1024, 2048, 3072, 4096)
SECOND_GENERATION = (160, 320, 640, 1280, 2560, 3840, 5120, 7680, 10240)
OPENZFS_MB_S = {
    "SINGLE_AZ_1": FIRST_GENERATION,
    "SINGLE_AZ_HA_1": FIRST_GENERATION,
    "SINGLE_AZ_2": SECOND_GENERATION,
    "SINGLE_AZ_HA_2": SECOND_GENERATION,
}

WINDOW_MINUTES = 30
DAY_MINUTES = 24 * 60


@for_each(lustres)
def lustre_capacity(_: Environment, key: KeyPath, lustre: Lustre) -> Iterator[Finding]:
    """PERSISTENT_2 on SSD comes in 1200 GiB and multiples of 2400 GiB; with EFA in steps that depend on throughput.

    Sources: FSx API reference, CreateFileSystem, StorageCapacity; for EFA the FSx for Lustre guide, "Increasing
    storage capacity".
    """
    given = lustre.capacity_gib
    if lustre.efa:
        step = EFA_STEP_GIB[lustre.throughput]
        if given % step:
            allowed = f"a multiple of {step} GiB with efa at {lustre.throughput} MB/s per TiB"
            other = next((tier for tier, size in EFA_STEP_GIB.items() if given % size == 0), None)
            advice = f"{_nearest(given, step, step)}, or " + (f"use {other} MB/s per TiB" if other else "efa: false")
            yield Finding((*key, "capacity_gib"), str(given), allowed, advice)
    elif given != SMALLEST_GIB and given % STEP_GIB:
        allowed = f"{SMALLEST_GIB}, or a multiple of {STEP_GIB} (GiB)"
        yield Finding((*key, "capacity_gib"), str(given), allowed, _nearest(given, SMALLEST_GIB, STEP_GIB))


def _nearest(given: int, smallest: int, step: int) -> str:
    below, above = given // step * step or smallest, (given // step + 1) * step
    return f"use {below} or {above}" if below != above else f"use {above}"


@for_each(lustres)
def lustre_backups(_: Environment, key: KeyPath, lustre: Lustre) -> Iterator[Finding]:
    """FSx does not back up a Lustre file system that is linked to S3. Source: FSx API reference, CreateBackup."""
    if lustre.backups.days and lustre.associations:
        yield Finding(
            (*key, "backups", "days"),
            f"{lustre.backups.days}, on a file system with associations",
            "0: FSx makes no backups of a Lustre file system that is linked to S3",
            "rely on the export to S3, or remove the associations",
        )


@for_each(lustres)
def lustre_efa_client(environment: Environment, key: KeyPath, lustre: Lustre) -> Iterator[Finding]:
    """EFA needs a Lustre client of Amazon Linux 2023, Ubuntu 22.04 or later, or RHEL 9.5 or later.

    Source: FSx for Lustre guide, "Using EFA-enabled file systems", client requirements.
    """
    os = environment.cluster.os
    if lustre.efa and os in NO_EFA_CLIENT:
        yield Finding((*key, "efa"), f"true, with os {os}", "alinux2023, ubuntu2204, ubuntu2404, rhel9 or rocky9")


@for_each(openzfs)
def openzfs_throughput(_: Environment, key: KeyPath, system: OpenZfs) -> Iterator[Finding]:
    """Each deployment type has its own steps of throughput.

    Source: FSx API reference, CreateFileSystemOpenZFSConfiguration, ThroughputCapacity and DeploymentType.
    """
    steps = OPENZFS_MB_S[system.deployment]
    if system.throughput not in steps:
        allowed = f"one of {', '.join(map(str, steps))} (MB/s) with {system.deployment}"
        nearest = min(steps, key=lambda step: abs(step - system.throughput))
        yield Finding((*key, "throughput"), str(system.throughput), allowed, f"use {nearest}")


@for_each(openzfs)
def openzfs_quotas(_: Environment, key: KeyPath, system: OpenZfs) -> Iterator[Finding]:
    """A quota above the capacity has no effect. (Quotas of several volumes may add up to more than the capacity.)"""
    for index, volume in enumerate(system.volumes):
        if volume.quota_gib is not None and volume.quota_gib > system.capacity_gib:
            allowed = f"at most the file system's capacity_gib, {system.capacity_gib}"
            yield Finding((*key, "volumes", index, "quota_gib"), str(volume.quota_gib), allowed)


def _file_systems(environment: Environment) -> Iterator[tuple[KeyPath, Lustre | OpenZfs]]:
    yield from lustres(environment)
    yield from openzfs(environment)


@for_each(_file_systems)
def windows(_: Environment, key: KeyPath, system: Lustre | OpenZfs) -> Iterator[Finding]:
    """The daily backup and the weekly maintenance last 30 minutes each and may not overlap on any day.

    Sources: FSx for Windows File Server guide, "Update a file system using the AWS CLI", for the same two fields; FSx
    for Lustre guide, "Maintenance windows" (30 minutes).
    """
    if not system.backups.days:
        return
    minutes = abs(_minute_of_day(system.backups.window) - _minute_of_day(system.maintenance_window))
    if min(minutes, DAY_MINUTES - minutes) < WINDOW_MINUTES:
        yield Finding(
            (*key, "backups", "window"),
            f"{system.backups.window}, inside the maintenance window {system.maintenance_window}",
            f"a time at least {WINDOW_MINUTES} minutes before or after the maintenance window, UTC",
        )


def _minute_of_day(time: str) -> int:
    hours, minutes = time.split(":")[-2:]
    return int(hours) * 60 + int(minutes)


RULES = (*(lustre_capacity, lustre_backups, lustre_efa_client, openzfs_throughput, openzfs_quotas, windows),)

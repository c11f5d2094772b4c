"""FSx for OpenZFS: throughput by deployment type, quotas."""

from __future__ import annotations

from collections.abc import Iterator

from settings.faults import KeyPath
from settings.model import Environment
from settings.model.storage import OpenZfs
from settings.rules.finding import Finding, rule_for_each
from settings.rules.items import openzfs

FIRST_GENERATION = (64, 128, 256, 512, 1024, 2048, 3072, 4096)
SECOND_GENERATION = (160, 320, 640, 1280, 2560, 3840, 5120, 7680, 10240)
THROUGHPUTS = {
    "SINGLE_AZ_1": FIRST_GENERATION,
    "SINGLE_AZ_HA_1": FIRST_GENERATION,
    "SINGLE_AZ_2": SECOND_GENERATION,
    "SINGLE_AZ_HA_2": SECOND_GENERATION,
}


@rule_for_each(openzfs)
def throughput(_: Environment, key: KeyPath, system: OpenZfs) -> Iterator[Finding]:
    """The steps of throughput that a deployment type has, MB/s.

    Source: FSx API reference, CreateFileSystemOpenZFSConfiguration, ThroughputCapacity and DeploymentType.
    """
    steps = THROUGHPUTS[system.deployment]
    if system.throughput not in steps:
        allowed = f"one of {', '.join(map(str, steps))} (MB/s) with {system.deployment}"
        nearest = min(steps, key=lambda step: abs(step - system.throughput))
        yield Finding((*key, "throughput"), str(system.throughput), allowed, f"use {nearest}")


@rule_for_each(openzfs)
def quotas(_: Environment, key: KeyPath, system: OpenZfs) -> Iterator[Finding]:
    """A quota beyond what holds it would never bind. Quotas of several volumes may add up to more than the
    capacity.
    """
    for index, volume in enumerate(system.volumes):
        at = (*key, "volumes", index)
        if volume.quota_gib is not None and volume.quota_gib > system.capacity_gib:
            limit = f"at most the file system's capacity_gib, {system.capacity_gib}"
            yield Finding((*at, "quota_gib"), str(volume.quota_gib), limit)


RULES = (throughput, quotas)

"""FSx for Lustre: capacities, backups, clients."""

from __future__ import annotations

from collections.abc import Iterator

from settings.faults import KeyPath
from settings.model import Environment
from settings.model.storage import Lustre
from settings.rules.finding import Finding, rule_for_each
from settings.rules.items import lustres

SMALLEST_GIB = 1200
STEP_GIB = 2400
EFA_STEP_GIB = {125: 38400, 250: 19200, 500: 9600, 1000: 4800}
NO_EFA_CLIENT = ("rhel8", "rocky8")


@rule_for_each(lustres)
def capacity(_: Environment, key: KeyPath, lustre: Lustre) -> Iterator[Finding]:
    """PERSISTENT_2 on SSD is sold as 1200 GiB, 2400 GiB and multiples of 2400 GiB; with EFA in steps by
    throughput.

    Source: FSx API reference, CreateFileSystem, StorageCapacity; for EFA the FSx for Lustre guide,
    "Increasing storage capacity": multiples of 38400, 19200, 9600 and 4800 GiB at 125, 250, 500 and 1000
    MB/s per TiB.
    """
    given = lustre.capacity_gib
    if lustre.efa:
        step = EFA_STEP_GIB[lustre.throughput]
        if given % step:
            allowed = f"a multiple of {step} GiB with efa at {lustre.throughput} MB/s per TiB"
            others = [f"{tier} MB/s" for tier, size in EFA_STEP_GIB.items() if given % size == 0]
            advice = f"{_near(given, step, step)}, or " + (f"use {others[0]} per TiB" if others else "efa: false")
            yield Finding((*key, "capacity_gib"), str(given), allowed, advice)
    elif given != SMALLEST_GIB and given % STEP_GIB:
        yield Finding(
            (*key, "capacity_gib"),
            str(given),
            f"{SMALLEST_GIB}, or a multiple of {STEP_GIB} (GiB)",
            _near(given, SMALLEST_GIB, STEP_GIB),
        )


def _near(given: int, smallest: int, step: int) -> str:
    below, above = given // step * step, (given // step + 1) * step
    return f"use {below or smallest} or {above}" if (below or smallest) != above else f"use {above}"


@rule_for_each(lustres)
def no_backups_beside_associations(_: Environment, key: KeyPath, lustre: Lustre) -> Iterator[Finding]:
    """FSx backs up a Lustre file system only where it is not linked to a data repository.

    Source: FSx API reference, CreateBackup.
    """
    if lustre.backups.days and lustre.associations:
        yield Finding(
            (*key, "backups", "days"),
            f"{lustre.backups.days}, on a file system with associations",
            "0: FSx makes no backups of a Lustre file system that is linked to S3",
            "rely on the export to S3, or leave the associations out",
        )


@rule_for_each(lustres)
def efa_clients(environment: Environment, key: KeyPath, lustre: Lustre) -> Iterator[Finding]:
    """A Lustre client over EFA wants kernel and client of Amazon Linux 2023, Ubuntu 22.04 or later, or RHEL
    9.5 or later.

    Source: FSx for Lustre guide, "Using EFA-enabled file systems", client requirements.
    """
    os = environment.cluster.os
    if lustre.efa and os in NO_EFA_CLIENT:
        yield Finding((*key, "efa"), f"true, with os {os}", "alinux2023, ubuntu2204, ubuntu2404, rhel9 or rocky9")


RULES = (capacity, no_backups_beside_associations, efa_clients)

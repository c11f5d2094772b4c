"""Weekly maintenance and daily backups of file systems."""

from __future__ import annotations

from collections.abc import Iterator

from settings.faults import KeyPath
from settings.model import Environment
from settings.model.storage import Lustre, OpenZfs
from settings.rules.finding import Finding, rule_for_each
from settings.rules.items import lustres, openzfs

WINDOW_MINUTES = 30
DAY_MINUTES = 24 * 60


def _file_systems(environment: Environment) -> Iterator[tuple[KeyPath, Lustre | OpenZfs]]:
    yield from lustres(environment)
    yield from openzfs(environment)


def _minutes(time: str) -> int:
    hours, minutes = time.split(":")[-2:]
    return int(hours) * 60 + int(minutes)


@rule_for_each(_file_systems)
def apart(_: Environment, key: KeyPath, system: Lustre | OpenZfs) -> Iterator[Finding]:
    """Both windows last 30 minutes and may not overlap; the maintenance day is in every day's reach.

    Source: FSx for Windows File Server guide, "Update a file system using the AWS CLI", which states it for the same
    two fields; FSx for Lustre guide, "Maintenance windows" (30 minutes).
    """
    if not system.backups.days:
        return
    apart_by = abs(_minutes(system.backups.window) - _minutes(system.maintenance_window))
    if min(apart_by, DAY_MINUTES - apart_by) < WINDOW_MINUTES:
        yield Finding(
            (*key, "backups", "window"),
            f"{system.backups.window}, inside the maintenance window {system.maintenance_window}",
            f"a time at least {WINDOW_MINUTES} minutes away from the maintenance window's, UTC",
        )


RULES = (apart,)

"""Names of scheduled snapshots, and which of them have expired. No calls, no clock."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

PREFIX = "scheduled-"
_SCHEDULED = re.compile(rf"^{PREFIX}\d{{8}}T\d{{6}}Z$")


@dataclass(frozen=True)
class Snapshot:
    """A snapshot. `lifecycle` is FSx's: PENDING, CREATING, AVAILABLE or DELETING."""

    id: str
    name: str
    lifecycle: str


def name_at(scheduled_time: str) -> str:
    """Name of the snapshot of a scheduled time (ISO 8601), as users see it under `.zfs/snapshot`.

    The scheduled time, not the clock, gives the name, so that a retry makes the same snapshot. Raises ValueError for a
    time that cannot be parsed or has no zone.
    """
    time = datetime.fromisoformat(scheduled_time)
    if time.tzinfo is None:
        raise ValueError(
            f"scheduled_time is {scheduled_time!r}: it must name its zone, for example 2026-01-31T06:00:00Z."
        )
    return f"{PREFIX}{time.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def expired(snapshots: Iterable[Snapshot], keep: int) -> tuple[Snapshot, ...]:
    """The scheduled snapshots beyond the newest `keep`, oldest first. Never one that a person made."""
    ours = sorted(
        (item for item in snapshots if _SCHEDULED.match(item.name) and item.lifecycle != "DELETING"),
        key=lambda item: item.name,
    )
    return tuple(ours[: max(0, len(ours) - keep)])

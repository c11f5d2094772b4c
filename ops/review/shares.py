"""What a change does to teams, qualities of service and reservations, from the metadata of the cluster's template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ops.review.stacks import Stacks
from settings.shares import METADATA

_KINDS = {"teams": "team", "qos": "QOS", "reservations": "reservation", "models": "model"}
_LOSES = {
    "teams": "its users can submit no jobs to it; running jobs end as usual, and its history stays",
    "qos": "jobs can no longer ask for it; its history stays",
    "reservations": "its nodes are free for all teams",
    "models": "its jobs count for their user's default team",
}


@dataclass(frozen=True)
class ShareChange:
    """One line of a change: what it is about, the change, and, if it takes something from running work, `takes`."""

    subject: str
    text: str
    takes: str = ""


def changes(old: Stacks, new: Stacks) -> Iterator[ShareChange]:
    """The differences between the shares of two sides, object by object; a new environment's are no change."""
    if "cluster" not in old or "cluster" not in new:
        return
    before, after = (_metadata(side) for side in (old, new))
    for key, kind in _KINDS.items():
        had, has = ({item["name"]: item for item in side.get(key, ())} for side in (before, after))
        for name in {**had, **has}:
            subject = f"{kind} {name}"
            if name not in has:
                yield ShareChange(subject, "removed", _LOSES[key])
            elif name not in had:
                yield ShareChange(subject, f"added: {_fields(has[name])}")
            else:
                for field in {**had[name], **has[name]}:  # a template has no key without a value
                    was, now = had[name].get(field), has[name].get(field)
                    if was != now:
                        text = f"{field}: {_shown(was)} -> {_shown(now)}"
                        yield ShareChange(subject, text, _tightened(field, was, now))


def _metadata(side: Stacks) -> Mapping[str, Any]:
    found: Mapping[str, Any] = side["cluster"].template.get("Metadata", {}).get(METADATA, {})
    return found


def _tightened(field: str, was: object, now: object) -> str:
    """A limit that is lower than before holds back jobs in the queue; preemption ends running ones."""
    if field.startswith("max_") and isinstance(now, int) and (was is None or (isinstance(was, int) and now < was)):
        return "jobs above the limit wait; running ones go on"
    if field == "preempts" and isinstance(now, list) and isinstance(was, list) and set(now) - set(was):
        return f"running jobs of {', '.join(sorted(set(now) - set(was)))} can be requeued for it"
    return ""


def _fields(item: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{key} {_shown(value)}" for key, value in item.items() if key != "name" and value not in (None, [])
    )


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)

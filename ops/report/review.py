"""The report of `trainyard diff` and of the gate."""

from __future__ import annotations

from ops.report.model import Alert, Code, Report, Row, Section, Tone
from ops.review.permissions import not_counted_by_cdk
from ops.review.resources import Effect, ResourceChange
from ops.review.structure import ABSENT, shown
from ops.review.verdict import Level, Verdict, at_stake, label, meaning

_TONES = {Level.NOTHING: Tone.GOOD, Level.SAFE: Tone.GOOD, Level.DISRUPTIVE: Tone.WARNING, Level.DESTRUCTIVE: Tone.BAD}
_ALERTS = {Level.DISRUPTIVE: Alert.WARNING, Level.DESTRUCTIVE: Alert.CAUTION}
_DIFFERENCES = 6
"""Differences of a resource that are shown; JSON holds all."""


def review_report(verdict: Verdict, cdk_diff: str = "") -> Report:
    """The verdict on a change, with the CDK's own diff attached."""
    cluster = verdict.cluster
    data = (
        Row((f"{label(change)} ({change.stack})", at_stake(change), Code(", ".join(change.causes))), Tone.BAD)
        for change in verdict.data
    )
    keys = (
        Row((Code(key.path), Code(shown(key.old)), Code(shown(key.new)), meaning(key, cluster), key.policy))
        for key in cluster.keys
    )
    permissions = (Row((Code(line),)) for line in not_counted_by_cdk(verdict))
    resources = tuple(
        Row((f"{change.stack}: {label(change)}", str(change.effect), Code(_differences(change))))
        for change in verdict.resources
    )
    left = f"No longer part of the app, and kept as they are: {', '.join(verdict.left_stacks)}"
    return Report(
        title=f"{verdict.environment} against {verdict.against}",
        headline=verdict.headline,
        tone=_TONES[verdict.level],
        alert=_ALERTS.get(verdict.level, Alert.NOTE),
        data=_data(verdict),
        alarm=Section("Data at stake", ("Resource", "What happens", "Because of"), tuple(data), lead=2),
        sections=(
            Section(
                f"Cluster {cluster.name}: {cluster.outcome}",
                ("Key", "Old", "New", "What it means", "Policy"),
                tuple(keys),
                note=_accepted(verdict) if cluster.accepted is not None else "",
            ),
            Section("Permissions that the CDK does not count", ("May be broadened by",), tuple(permissions)),
            Section(f"{len(resources)} resources", ("Resource", "What happens", "Changes"), resources, 2, folded=True),
        ),
        notes=(left,) if verdict.left_stacks else (),
        attachment=("cdk diff", cdk_diff),
    )


def _differences(change: ResourceChange) -> str:
    if change.effect is not Effect.CHANGED or change.kind.startswith("Custom::ParallelCluster"):
        return ""
    shown_here = [str(difference) for difference in change.differences[:_DIFFERENCES]]
    more = len(change.differences) - _DIFFERENCES
    return "; ".join([*shown_here, *([f"and {more} more"] if more > 0 else [])])


def _accepted(verdict: Verdict) -> str:
    states = verdict.cluster.accepted or {}
    if states.get("running"):
        return "ParallelCluster accepts the update as it is, with a running fleet."
    if states.get("stopped"):
        return "ParallelCluster refuses the update while the fleet runs, and accepts it with the fleet stopped."
    return "ParallelCluster refuses the update, with the fleet running or stopped."


def _data(verdict: Verdict) -> dict[str, object]:
    cluster = verdict.cluster
    return {
        "environment": verdict.environment,
        "against": verdict.against,
        "level": verdict.level.name.lower(),
        "exit": int(verdict.level),
        "headline": verdict.headline,
        "reasons": [{"level": reason.level.name.lower(), "text": reason.text} for reason in verdict.reasons],
        "data": [f"{change.stack}/{change.logical_id}" for change in verdict.data],
        "cluster": {
            "name": cluster.name,
            "outcome": cluster.outcome,
            "queue_update_strategy": cluster.strategy,
            "accepted": cluster.accepted,
            "keys": [
                {
                    "key": key.path,
                    "old": key.old,
                    "new": key.new,
                    "needs": key.need.value,
                    "strategies": list(key.strategies),
                    "policy": key.policy,
                    "meaning": meaning(key, cluster),
                    "reason": key.reason,
                }
                for key in cluster.keys
            ],
        },
        "resources": [_resource(change) for change in verdict.resources],
        "permissions": list(not_counted_by_cdk(verdict)),
        "new_stacks": list(verdict.new_stacks),
        "left_stacks": list(verdict.left_stacks),
    }


def _resource(change: ResourceChange) -> dict[str, object]:
    return {
        "stack": change.stack,
        "logical_id": change.logical_id,
        "type": change.kind,
        "name": change.name,
        "effect": change.effect.value,
        "causes": list(change.causes),
        "stateful": change.stateful,
        "data_disposition": change.data_disposition,
        "expires": list(change.expires),
        "differences": [
            {
                "key": item.path,
                "old": None if item.old is ABSENT else item.old,
                "new": None if item.new is ABSENT else item.new,
            }
            for item in change.differences
        ],
    }

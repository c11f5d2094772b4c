"""The verdict for programs: one JSON object."""

from __future__ import annotations

import json
from typing import Any

from ops.review.permissions import not_counted_by_cdk
from ops.review.structure import ABSENT
from ops.review.verdict import Verdict, meaning


def render(verdict: Verdict) -> str:
    """`level` (nothing, safe, disruptive, destructive), `exit`, `headline`, `reasons`, `permissions`, and more."""
    cluster = verdict.cluster
    content: dict[str, Any] = {
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
        "resources": [
            {
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
                    {"key": item.path, "old": _value(item.old), "new": _value(item.new)} for item in change.differences
                ],
            }
            for change in verdict.resources
        ],
        "permissions": list(not_counted_by_cdk(verdict)),
        "new_stacks": list(verdict.new_stacks),
        "left_stacks": list(verdict.left_stacks),
    }
    return json.dumps(content, indent=2)


def _value(value: object) -> object:
    return None if value is ABSENT else value

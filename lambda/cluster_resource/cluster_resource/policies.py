"""Update policies, `cluster.updates` in environment files: what an update may do to the cluster, and the words for it.

`trainyard diff` says it before a deployment (ops/review/verdict.py), the handler after a refusal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from cluster_resource.api import Change

VALUES = {
    "StopFleet": ("never", "when-needed"),
    "Replace": ("never", "when-needed"),
    "RunningJobs": ("protect", "may-be-killed"),
}
"""The keys of the property `Updates`, and their values; the first is what a missing key means."""
_STOP = ("StopFleet", "it is stopped and started again (cluster.updates.stop_fleet)")
_EFFECTS = {
    "fleet": _STOP,
    "fleet-and-login": _STOP,
    "new-cluster": ("Replace", "the cluster is deleted and created again (cluster.updates.replace)"),
}


@dataclass(frozen=True)
class Policy:
    """What an update may do to the cluster. `rollback`: it is a rollback, which leaves a stuck stack if it fails."""

    stop_fleet: bool = False
    replace: bool = False
    kill_jobs: bool = False
    rollback: bool = False

    @classmethod
    def of(cls, sides: Sequence[Mapping[str, str]], *, rollback: bool) -> Self:
        """Combine several properties `Updates`: what any of them allows is allowed."""
        return cls(
            stop_fleet=any(side.get("StopFleet") == "when-needed" for side in sides),
            replace=any(side.get("Replace") == "when-needed" for side in sides),
            kill_jobs=any(side.get("RunningJobs") == "may-be-killed" for side in sides),
            rollback=rollback,
        )


def effect(need: str, updates: Mapping[str, str]) -> str:
    """What an update does for a change that needs something stopped or created; empty if it may not do so.

    Args:
        need: a word of parallelcluster.policies, such as "fleet".
        updates: the property `Updates`.
    """
    key, text = _EFFECTS.get(need, ("", ""))
    return text if updates.get(key) == "when-needed" else ""


def advice(refused: Sequence[Change]) -> str:
    """What the user can do about changes that the API refuses."""
    if stopping_helps(refused):
        return (
            "Let the update stop the fleet and start it again (cluster.updates.stop_fleet: when-needed in the"
            " environment file); or, where the refusal above names QueueUpdateStrategy, set"
            " cluster.slurm.queue_update: TERMINATE, which ends the jobs of the nodes concerned; then deploy again."
        )
    if refused:
        return (
            "Undo the change, or allow the update to replace the cluster (cluster.updates.replace:"
            " when-needed), or replace the cluster by giving it another name in the environment file."
        )
    return "Correct the configuration and deploy again."


def stopping_helps(refused: Sequence[Change]) -> bool:
    """Whether the API would accept every refused change with a stopped compute fleet."""
    return bool(refused) and all(item.needs_stopped_fleet and not item.needs_stopped_login_nodes for item in refused)

"""What becomes of the cluster: each changed key of its configuration, and what ParallelCluster needs for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from review import genuine
from review.references import References, Resource
from review.stacks import Stacks

TYPE = "Custom::ParallelCluster"


class Need(StrEnum):
    """What must be stopped, or made, for a change (the words of parallelcluster.policies)."""

    NOTHING = "nothing"
    FLEET = "fleet"
    LOGIN = "login"
    FLEET_AND_LOGIN = "fleet-and-login"
    HEAD = "head"
    NEW_CLUSTER = "new-cluster"


@dataclass(frozen=True)
class Key:
    """One changed key.

    Attributes:
        policy: ParallelCluster's name of its update policy.
        strategies: values of QueueUpdateStrategy with which the change passes while the fleet runs.
        reason: why not, in ParallelCluster's words; empty where it may change in place.
        ignored: ParallelCluster does not count it as a change.
        internal_error: the API answers HTTP 500 to it while the fleet runs.
    """

    path: str
    old: object
    new: object
    policy: str
    need: Need
    strategies: tuple[str, ...] = ()
    reason: str = ""
    ignored: bool = False
    internal_error: bool = False


@dataclass(frozen=True)
class Cluster:
    """The cluster between the two sides.

    Attributes:
        fate: none | created | unchanged | updated | renamed | removed | other version.
        strategy: QueueUpdateStrategy of the new configuration.
        updates: what the environment lets an update do: StopFleet, Replace, RunningJobs.
        accepted: whether the API takes the whole update as it is, by the state of the fleet: running, stopped.
    """

    name: str
    fate: str
    keys: tuple[Key, ...] = ()
    strategy: str = ""
    updates: Mapping[str, str] | None = None
    accepted: Mapping[str, bool] | None = None
    was: str = ""

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset(key.need for key in self.keys)


def compare(old: Stacks, new: Stacks, renewed: Collection[Resource]) -> Cluster:
    """The cluster of both sides; resources in `renewed` get new ids in the new side's configuration."""
    was, now = _properties(old, References(old)), _properties(new, References(new, renewed))
    if now is None:
        return Cluster(was["ClusterName"], "removed") if was else Cluster("", "none")
    name, updates = now["ClusterName"], now.get("Updates")
    if was is None:
        return Cluster(name, "created", updates=updates)
    if was["ClusterName"] != name:
        return Cluster(name, "renamed", updates=updates, was=was["ClusterName"])
    answer = genuine.examine({name: (name, was["Configuration"], now["Configuration"])})[name]
    fate = "updated" if answer["changes"] else "unchanged"
    if was.get("ApiVersion") != now.get("ApiVersion"):
        fate = "other version"
    return Cluster(
        name,
        fate,
        keys=keys_of(answer),
        strategy=answer["strategy"],
        updates=updates,
        accepted=answer["accepted"],
        was=str(was.get("ApiVersion", "")) if fate == "other version" else name,
    )


def keys_of(answer: Mapping[str, Any]) -> tuple[Key, ...]:
    """The changes of one answer of `parallelcluster.policies.examine`, the weightiest first."""
    order = list(Need)
    keys = [
        Key(
            change["path"],
            change["old"],
            change["new"],
            change["policy"],
            Need(change["needs"]),
            tuple(change["strategies"]),
            change["reason"] if change["needs"] != Need.NOTHING else "",
            change["ignored"],
            change["internal_error"],
        )
        for change in answer["changes"]
    ]
    return tuple(sorted(keys, key=lambda key: -order.index(key.need)))


def _properties(stacks: Stacks, references: References) -> dict[str, Any] | None:
    for key, stack in stacks.items():
        for resource in stack.resources.values():
            if resource["Type"] == TYPE:
                resolved: dict[str, Any] = references.resolve(resource["Properties"], key)
                return resolved
    return None

"""What becomes of the cluster: each changed key of its configuration, and what ParallelCluster needs for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ops.review import genuine
from ops.review.references import References, Resource
from ops.review.stacks import Stacks

TYPE = "Custom::ParallelCluster"


class Need(StrEnum):
    """What must be stopped, or made, for a change (the words of parallelcluster.policies)."""

    NOTHING = "nothing"
    FLEET = "fleet"
    LOGIN = "login"
    FLEET_AND_LOGIN = "fleet-and-login"
    HEAD = "head"
    NEW_CLUSTER = "new-cluster"


class Fate(StrEnum):
    """What becomes of the cluster that the environment names.

    RESUMED: it was kept as a predecessor until now, so that its own configuration is not told here. DISPLACED: another
    resource is to make it, which is refused while the present one has it.
    """

    NONE = "none"
    CREATED = "created"
    UNCHANGED = "unchanged"
    UPDATED = "updated"
    RESUMED = "resumed"
    OTHER_VERSION = "other version"
    DISPLACED = "displaced"


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
    """The clusters between the two sides.

    Attributes:
        name: of the cluster that the new side makes; empty where it makes none.
        fate: see `Fate`.
        strategy: QueueUpdateStrategy of the new configuration.
        updates: what the environment lets an update do: StopFleet, Replace, RunningJobs.
        accepted: whether the API takes the whole update as it is, by the state of the fleet: running, stopped.
        version: of ParallelCluster, that stands there.
        deleted: names of clusters that stand there and are no longer wanted.
        beside: names of predecessors that are kept as they are.
    """

    name: str
    fate: Fate
    keys: tuple[Key, ...] = ()
    strategy: str = ""
    updates: Mapping[str, str] | None = None
    accepted: Mapping[str, bool] | None = None
    version: str = ""
    deleted: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


class _Side:
    """The cluster resources of one side, by the name of their cluster."""

    def __init__(self, stacks: Stacks, references: References) -> None:
        self.properties: dict[str, dict[str, Any]] = {}
        self.resources: dict[str, Resource] = {}
        for key, stack in stacks.items():
            for logical_id, resource in stack.resources.items():
                if resource["Type"] == TYPE:
                    resolved = references.resolve(resource["Properties"], key)
                    self.properties[resolved["ClusterName"]] = resolved
                    self.resources[resolved["ClusterName"]] = (key, logical_id)

    @property
    def main(self) -> str:
        return next((name for name in self.properties if not self.is_kept(name)), "")

    def is_kept(self, name: str) -> bool:
        """Whether the resource is that of a predecessor, whose properties say nothing of the cluster."""
        return str(self.properties[name].get("Frozen", "false")).lower() == "true"


def compare(old: Stacks, new: Stacks, renewed: Collection[Resource]) -> Cluster:
    """The clusters of both sides; resources in `renewed` get new ids in the new side's configuration."""
    was, now = _Side(old, References(old)), _Side(new, References(new, renewed))
    name = now.main
    about: dict[str, Any] = {
        "deleted": tuple(sorted(set(was.properties) - set(now.properties))),
        "beside": tuple(sorted(other for other in now.properties if now.is_kept(other))),
    }
    if not name:
        return Cluster("", Fate.NONE, **about)
    wanted = now.properties[name]
    about["updates"] = wanted.get("Updates")
    standing = was.properties.get(name)
    if standing is None:
        return Cluster(name, Fate.CREATED, **about)
    if was.is_kept(name):
        return Cluster(name, Fate.RESUMED, **about)
    answer = genuine.examine({name: (name, standing["Configuration"], wanted["Configuration"])})[name]
    fate = Fate.UPDATED if answer["changes"] else Fate.UNCHANGED
    if was.resources[name] != now.resources[name]:
        fate = Fate.DISPLACED
    elif standing.get("ApiVersion") != wanted.get("ApiVersion"):
        fate = Fate.OTHER_VERSION
    return Cluster(
        name,
        fate,
        keys=keys_of(answer),
        strategy=answer["strategy"],
        accepted=answer["accepted"],
        version=str(standing.get("ApiVersion", "")),
        **about,
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

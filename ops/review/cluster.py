"""What happens to the cluster: each changed key of its configuration, and what ParallelCluster needs for the change."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ops import pcluster_subprocess
from ops.review.references import References, Resource
from ops.review.stacks import Stacks

TYPE = "Custom::ParallelCluster"


class Need(StrEnum):
    """What must be stopped or created for a change (the words of parallelcluster.policies)."""

    NOTHING = "nothing"
    FLEET = "fleet"
    LOGIN = "login"
    FLEET_AND_LOGIN = "fleet-and-login"
    HEAD = "head"
    NEW_CLUSTER = "new-cluster"


class Outcome(StrEnum):
    """What happens to the cluster that the environment names.

    RESUMED: it was kept as a predecessor until now; nothing is known of its present configuration. DISPLACED: another
    resource of the templates is to create it, which is refused while the present one owns it.
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
        reason: why it cannot change in place, in ParallelCluster's words; empty where it can.
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
    """The clusters of the two sides.

    Attributes:
        name: of the cluster that the new side creates; empty where it creates none.
        strategy: QueueUpdateStrategy of the new configuration.
        updates: what the environment lets an update do: StopFleet, Replace, RunningJobs.
        accepted: whether the API takes the whole update as it is, by the state of the fleet: running, stopped.
        version: of ParallelCluster, of the deployed cluster.
        deleted: names of deployed clusters that the new side does not have.
        predecessors: names of predecessors that are kept as they are.
    """

    name: str
    outcome: Outcome
    keys: tuple[Key, ...] = ()
    strategy: str = ""
    updates: Mapping[str, str] | None = None
    accepted: Mapping[str, bool] | None = None
    version: str = ""
    deleted: tuple[str, ...] = ()
    predecessors: tuple[str, ...] = ()


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
        return next((name for name in self.properties if not self.is_predecessor(name)), "")

    def is_predecessor(self, name: str) -> bool:
        """Whether the resource only keeps a predecessor; its properties do not describe that cluster."""
        return str(self.properties[name].get("Frozen", "false")).lower() == "true"


def compare(old: Stacks, new: Stacks, replaced: Collection[Resource]) -> Cluster:
    """The clusters of both sides; the resources `replaced` get new ids in the new side's configuration."""
    before, after = _Side(old, References(old)), _Side(new, References(new, replaced))
    name = after.main
    others: dict[str, Any] = {
        "deleted": tuple(sorted(set(before.properties) - set(after.properties))),
        "predecessors": tuple(sorted(other for other in after.properties if after.is_predecessor(other))),
    }
    if not name:
        return Cluster("", Outcome.NONE, **others)
    wanted, present = after.properties[name], before.properties.get(name)
    others["updates"] = wanted.get("Updates")
    if present is None:
        return Cluster(name, Outcome.CREATED, **others)
    if before.is_predecessor(name):
        return Cluster(name, Outcome.RESUMED, **others)
    step = (name, present["Configuration"], wanted["Configuration"])
    answer = pcluster_subprocess.compare_configurations({name: step})[name]
    outcome = Outcome.UPDATED if answer["changes"] else Outcome.UNCHANGED
    if before.resources[name] != after.resources[name]:
        outcome = Outcome.DISPLACED
    elif present.get("ApiVersion") != wanted.get("ApiVersion"):
        outcome = Outcome.OTHER_VERSION
    return Cluster(
        name,
        outcome,
        keys=keys_of(answer),
        strategy=answer["strategy"],
        accepted=answer["accepted"],
        version=str(present.get("ApiVersion", "")),
        **others,
    )


def keys_of(answer: Mapping[str, Any]) -> tuple[Key, ...]:
    """The changes of one answer of `parallelcluster.policies.examine`, those that need most first."""
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

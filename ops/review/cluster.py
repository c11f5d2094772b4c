"""What happens to the cluster: each changed key of its configuration, and what ParallelCluster needs for the change."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from ops import pcluster_subprocess
from ops.review.stacks import References, Resource, Stacks

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
    needs: Need
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
        jobs: what runs on clusters that are deleted, in words, by their name.
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
    jobs: Mapping[str, str] = field(default_factory=dict)


def compare(old: Stacks, new: Stacks, replaced: Collection[Resource]) -> Cluster:
    """The clusters of both sides; the resources `replaced` get new ids in the new side's configuration."""
    before, after = _clusters(old, References(old)), _clusters(new, References(new, replaced))
    predecessors = [name for name, (_, properties) in after.items() if is_predecessor(properties)]
    name = next((name for name in after if name not in predecessors), "")
    others: dict[str, Any] = {
        "deleted": tuple(sorted(set(before) - set(after))),
        "predecessors": tuple(sorted(predecessors)),
    }
    if not name:
        return Cluster("", Outcome.NONE, **others)
    place, wanted = after[name]
    others["updates"] = wanted.get("Updates")
    if name not in before:
        return Cluster(name, Outcome.CREATED, **others)
    old_place, present = before[name]
    if is_predecessor(present):
        return Cluster(name, Outcome.RESUMED, **others)
    step = (name, present["Configuration"], wanted["Configuration"])
    answer = pcluster_subprocess.compare_configurations({name: step})[name]
    outcome = Outcome.UPDATED if answer["changes"] else Outcome.UNCHANGED
    if old_place != place:
        outcome = Outcome.DISPLACED
    elif present.get("ApiVersion") != wanted.get("ApiVersion"):
        outcome = Outcome.OTHER_VERSION
    others |= {"keys": keys_of(answer), "strategy": answer["strategy"], "accepted": answer["accepted"]}
    return Cluster(name, outcome, version=str(present.get("ApiVersion", "")), **others)


def _clusters(stacks: Stacks, references: References) -> dict[str, tuple[Resource, dict[str, Any]]]:
    """The cluster resources of one side and their properties, by the name of the cluster."""
    found = {}
    for key, stack in stacks.items():
        for logical_id, resource in stack.resources.items():
            if resource["Type"] == TYPE:
                properties = references.within(key).resolve(resource["Properties"])
                found[properties["ClusterName"]] = (key, logical_id), properties
    return found


def is_predecessor(properties: Mapping[str, Any]) -> bool:
    """Whether the resource only keeps a predecessor; its properties do not describe that cluster."""
    return str(properties.get("Frozen", "false")).lower() == "true"


def keys_of(answer: Mapping[str, Any]) -> tuple[Key, ...]:
    """The changes of one answer of `parallelcluster.policies.examine`, those that need most first."""
    keys = []
    for change in answer["changes"]:
        needs = Need(change["needs"])
        reason = "" if needs is Need.NOTHING else change["reason"]
        known = {field.name: change[field.name] for field in fields(Key)}
        known |= {"needs": needs, "strategies": tuple(change["strategies"]), "reason": reason}
        keys.append(Key(**known))
    return tuple(sorted(keys, key=lambda key: -list(Need).index(key.needs)))

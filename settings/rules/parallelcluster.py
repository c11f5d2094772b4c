"""The section `parallelcluster`: keys of ParallelCluster's own, which are merged into the cluster's configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from settings.faults import KeyPath, suggestion
from settings.instances import DATA
from settings.model import Environment
from settings.rules.items import Finding, shared

SECTION = ("parallelcluster",)
TYPES: dict[str, tuple[type, ...]] = {"string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,)}
WORDS = {"string": "a text", "integer": "a whole number", "number": "a number", "boolean": "true or false"}
QUEUES, POOLS = "Scheduling.SlurmQueues", "LoginNodes.Pools"
OWN_KEYS = {
    "Region": "region",
    "Tags": "tags",
    "Image.Os": "cluster.os",
    "Iam.PermissionsBoundary": "cluster.permissions_boundary",
    "Iam.ResourcePrefix": "the default: the API may manage roles below /parallelcluster/ only",
    "Scheduling.Scheduler": "slurm, which is set",
    "Scheduling.SlurmSettings.CustomSlurmSettings": "cluster.slurm.settings",
    "Scheduling.SlurmSettings.Database": "cluster.slurm.accounting",
    "HeadNode.InstanceType": "cluster.head_node.instance_type",
    f"{POOLS}.InstanceType": "cluster.login_nodes.instance_type",
    f"{POOLS}.Count": "cluster.login_nodes.count",
    f"{QUEUES}.Capacity*": "capacity of the queue",
    f"{QUEUES}.ComputeResources.CapacityReservationTarget": "capacity of the queue",
    f"{QUEUES}.ComputeResources.Inst*": "instance_types of the compute resource",
    f"{QUEUES}.ComputeResources.M??Count": "min and max of the compute resource",
    f"{QUEUES}.ComputeResources.Efa": "efa of the compute resource",
    f"{QUEUES}.*EphemeralVolume": "scratch of the queue",
    "*.CustomActions": "cluster.hooks, or your own image (ami): the bootstrap needs the custom actions",
    "*.CustomAmi": "ami of the nodes",
    "*.Networking.SubnetId*": "network",
    "*.SecurityGroups": "security_groups of the nodes",
    "*.AdditionalSecurityGroups": "security_groups of the nodes",
    "*.Iam.[AIS]*": "policies of the nodes",
}
"""Patterns of keys that Trainyard itself relies on, with the keys of the environment file that set them."""


@cache
def known_keys() -> dict[str, Any]:
    """ParallelCluster's schema, in the form that parallelcluster/keys.py describes."""
    keys: dict[str, Any] = json.loads((DATA / "parallelcluster_keys.json").read_text("utf-8"))
    return keys


def shape(environment: Environment) -> Iterator[Finding]:
    """Every key is one that ParallelCluster knows, of its type, and none is Trainyard's.

    Source: ClusterSchema of the pinned package. Its validators judge the merged configuration in the preflight.
    """
    yield from _shape(environment.parallelcluster, known_keys(), SECTION)


def _shape(given: object, wanted: Any, key: KeyPath) -> Iterator[Finding]:  # noqa: ANN401 - JSON
    path = ".".join(str(part) for part in key[1:] if isinstance(part, str))
    own = next((instead for pattern, instead in OWN_KEYS.items() if fnmatchcase(path, pattern)), None)
    if own:
        yield Finding(key, "a key that Trainyard sets", "keys that Trainyard does not set", f"use {own}")
    elif isinstance(wanted, dict) and isinstance(given, Mapping):
        for name, value in given.items():
            if name in wanted:
                yield from _shape(value, wanted[name], (*key, name))
            else:
                advice = suggestion(name, list(wanted)) or "remove the key"
                yield Finding((*key, name), "an unknown key", ", ".join(wanted), advice)
    elif isinstance(wanted, list) and isinstance(given, list):
        for index, item in enumerate(given):
            yield from _shape(item, wanted[0], (*key, index))
    elif isinstance(wanted, str) and wanted.startswith("|"):
        if given not in (choices := wanted[1:].split("|")):
            advice = suggestion(str(given), choices)
            yield Finding(key, json.dumps(given)[:80], f"one of {', '.join(choices)}", advice)
    elif isinstance(wanted, str) and wanted in TYPES:
        if not isinstance(given, TYPES[wanted]) or (isinstance(given, bool) and wanted != "boolean"):
            yield Finding(key, json.dumps(given)[:80], WORDS[wanted])
    elif wanted != "any" or given is None:
        yield Finding(key, json.dumps(given)[:80], "a list" if isinstance(wanted, list) else "a mapping")


def named(environment: Environment) -> Iterator[Finding]:
    """An item of a list with names changes the item of that name. Only shared storage can be new.

    Storage must exist already: ParallelCluster deletes what it creates together with the cluster.
    """
    cluster = environment.cluster
    pools = [cluster.login_nodes.name] if cluster.login_nodes else []
    section = environment.parallelcluster
    yield from _names(section, ("LoginNodes", "Pools"), pools)
    yield from _names(section, ("Scheduling", "SlurmQueues"), [queue.name for queue in cluster.queues])
    for index, item in enumerate(_items(section, ("Scheduling", "SlurmQueues"))):
        compute = {c.name for queue in cluster.queues if queue.name == item.get("Name") for c in queue.compute}
        yield from _names(item, ("ComputeResources",), sorted(compute), (*SECTION, "Scheduling", "SlurmQueues", index))
    taken = [value for _, item in shared(environment) for value in (item.name, item.mount)]
    for index, item in enumerate(_items(section, ("SharedStorage",))):
        key = (*SECTION, "SharedStorage", index)
        ids = [name for part in item.values() if isinstance(part, Mapping) for name in part]
        if not {"FileSystemId", "VolumeId", "FileCacheId"} & set(ids):
            allowed = "FileSystemId, VolumeId or FileCacheId: ParallelCluster deletes its own storage with the cluster"
            yield Finding(key, "storage that ParallelCluster would create", allowed)
        for name in ("Name", "MountDir"):
            value = str(item.get(name, ""))
            if not value or value in taken:
                yield Finding(key, f"{name} {value!r}", f"a {name} that no other file system has")
            taken.append(value)


def _names(part: object, way: tuple[str, ...], known: list[str], above: KeyPath = SECTION) -> Iterator[Finding]:
    given = [str(item.get("Name", "")) for item in _items(part, way)]
    for index, name in enumerate(given):
        if name not in known or name in given[:index]:
            shown = f"Name {name!r}" if name in known else f"Name {name!r}, which the environment file does not have"
            yield Finding((*above, *way, index), shown, f"each of these once: {', '.join(known) or '(none)'}")


def _items(part: object, way: tuple[str, ...]) -> list[Mapping[str, Any]]:
    for name in way:
        part = part.get(name) if isinstance(part, Mapping) else None
    return [item for item in part if isinstance(item, Mapping)] if isinstance(part, list) else []


RULES = (shape, named)

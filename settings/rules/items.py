"""The items of an environment that rules check one by one, each with its key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from settings.faults import KeyPath
from settings.model import Environment
from settings.model.cluster import Compute, Queue
from settings.model.environment import Model
from settings.model.storage import Association, Lustre, OpenZfs, Volume


def lustres(environment: Environment) -> Iterator[tuple[KeyPath, Lustre]]:
    """Each Lustre file system."""
    for index, item in enumerate(environment.storage.lustre):
        yield ("storage", "lustre", index), item


def associations(key: KeyPath, lustre: Lustre) -> Iterator[tuple[KeyPath, Association]]:
    """Each data repository association of a Lustre file system."""
    for index, item in enumerate(lustre.associations):
        yield (*key, "associations", index), item


def openzfs(environment: Environment) -> Iterator[tuple[KeyPath, OpenZfs]]:
    """The OpenZFS file system, if there is one."""
    if environment.storage.openzfs is not None:
        yield ("storage", "openzfs"), environment.storage.openzfs


def volumes(environment: Environment) -> Iterator[tuple[KeyPath, Volume]]:
    """Each OpenZFS volume."""
    for key, system in openzfs(environment):
        for index, item in enumerate(system.volumes):
            yield (*key, "volumes", index), item


def mounts(environment: Environment) -> Iterator[tuple[KeyPath, str]]:
    """The mount point of each Lustre file system and each OpenZFS volume."""
    for key, lustre in lustres(environment):
        yield (*key, "mount"), lustre.mount
    for key, volume in volumes(environment):
        yield (*key, "mount"), volume.mount


def queues(environment: Environment) -> Iterator[tuple[KeyPath, Queue]]:
    """Each queue."""
    for index, item in enumerate(environment.cluster.queues):
        yield ("cluster", "queues", index), item


def computes(environment: Environment) -> Iterator[tuple[KeyPath, Compute]]:
    """Each compute resource of each queue."""
    for key, queue in queues(environment):
        for index, item in enumerate(queue.compute):
            yield (*key, "compute", index), item


def models(environment: Environment) -> Iterator[tuple[KeyPath, Model]]:
    """Each training project."""
    for index, item in enumerate(environment.models):
        yield ("models", index), item


@dataclass(frozen=True)
class TypeUse:
    """An instance type in the file, and its role: `head`, `login` or `compute`."""

    name: str
    role: str


def type_uses(environment: Environment) -> Iterator[tuple[KeyPath, TypeUse]]:
    """Each instance type of the cluster."""
    cluster = environment.cluster
    yield ("cluster", "head_node", "instance_type"), TypeUse(cluster.head_node.instance_type, "head")
    if cluster.login_nodes:
        yield ("cluster", "login_nodes", "instance_type"), TypeUse(cluster.login_nodes.instance_type, "login")
    for key, compute in computes(environment):
        for index, name in enumerate(compute.instance_types):
            yield (*key, "instance_types", index), TypeUse(name, "compute")


def overlap(first: str, second: str) -> bool:
    """Whether two absolute paths are equal, or one is inside the other."""
    a, b = first.rstrip("/") + "/", second.rstrip("/") + "/"
    return a.startswith(b) or b.startswith(a)


def repeated(named: Iterable[tuple[KeyPath, str]]) -> Iterator[tuple[KeyPath, str, KeyPath]]:
    """Each value that occurred before, with the key of its first occurrence."""
    first: dict[str, KeyPath] = {}
    for key, value in named:
        if value in first:
            yield key, value, first[value]
        first.setdefault(value, key)

"""The parts of an environment that rules go through one by one, each with its key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from settings.faults import KeyPath
from settings.model import Environment
from settings.model.base import NotSoundError, Part
from settings.model.cluster import Compute, Queue
from settings.model.models import Model
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


def queues(environment: Environment) -> Iterator[tuple[KeyPath, Queue]]:
    """Each queue."""
    for index, item in enumerate(environment.cluster.queues):
        yield ("cluster", "queues", index), item


def computes(environment: Environment) -> Iterator[tuple[KeyPath, Compute]]:
    """Each compute resource of each queue."""
    for key, queue in queues(environment):
        if has(queue, "compute"):
            for index, item in enumerate(queue.compute):
                yield (*key, "compute", index), item


def models(environment: Environment) -> Iterator[tuple[KeyPath, Model]]:
    """Each training project."""
    for index, item in enumerate(environment.models):
        yield ("models", index), item


@dataclass(frozen=True)
class TypeUse:
    """An instance type that the file names, and what for: `head`, `login` or `compute`."""

    name: str
    role: str


def type_uses(environment: Environment) -> Iterator[tuple[KeyPath, TypeUse]]:
    """Each instance type of the cluster, where it is readable."""
    cluster = environment.cluster
    if has(cluster, "head_node") and has(cluster.head_node, "instance_type"):
        yield ("cluster", "head_node", "instance_type"), TypeUse(cluster.head_node.instance_type, "head")
    if has(cluster, "login_nodes") and cluster.login_nodes and has(cluster.login_nodes, "instance_type"):
        yield ("cluster", "login_nodes", "instance_type"), TypeUse(cluster.login_nodes.instance_type, "login")
    if has(cluster, "queues"):
        for key, compute in computes(environment):
            if has(compute, "instance_types"):
                for index, name in enumerate(compute.instance_types):
                    yield (*key, "instance_types", index), TypeUse(name, "compute")


def has(part: Part, field: str) -> bool:
    """Whether a field is there; on a file with faults of types it may not be."""
    try:
        getattr(part, field)
    except NotSoundError:
        return False
    return True


def overlap(first: str, second: str) -> bool:
    """Whether one of two absolute paths is, or lies in, the other."""
    a, b = first.rstrip("/") + "/", second.rstrip("/") + "/"
    return a.startswith(b) or b.startswith(a)


def doubled(named: list[tuple[KeyPath, str]]) -> Iterator[tuple[KeyPath, str, KeyPath]]:
    """Each value that was there before, with the key of the first."""
    first: dict[str, KeyPath] = {}
    for key, value in named:
        if value in first:
            yield key, value, first[value]
        else:
            first[value] = key

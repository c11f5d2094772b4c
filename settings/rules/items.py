"""What rules check and return: the items of an environment, each with its key, and findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol, TypeVar

from settings.faults import KeyPath
from settings.model import Environment
from settings.model.cluster import Compute, Queue
from settings.model.environment import Model
from settings.model.images import Repository
from settings.model.storage import Association, ExistingFileSystem, Lustre, OpenZfs, Volume

T = TypeVar("T")
Items = Iterator[tuple[KeyPath, T]]


class Finding(NamedTuple):
    """A fault at a key; the loader adds file and line."""

    key: KeyPath
    given: str
    allowed: str
    advice: str = ""


Rule = Callable[[Environment], Iterator[Finding]]
Check = Callable[[Environment, KeyPath, T], Iterator[Finding]]


def for_each(items: Callable[[Environment], Items[T]]) -> Callable[[Check[T]], Rule]:
    """Makes a rule of a function that checks one item."""

    def decorate(check: Check[T]) -> Rule:
        def rule(environment: Environment) -> Iterator[Finding]:
            for key, item in items(environment):
                yield from check(environment, key, item)

        return rule

    return decorate


class Named(Protocol):
    """An item with a name."""

    @property
    def name(self) -> str: ...


class TypeUse(NamedTuple):
    """An instance type in the file, and its role: `head`, `login`, `compute` or `monitoring`."""

    name: str
    role: str


def listed(key: KeyPath, items: Iterable[T]) -> Items[T]:
    return (((*key, index), item) for index, item in enumerate(items))


def lustres(environment: Environment) -> Items[Lustre]:
    return listed(("storage", "lustre"), environment.storage.lustre)


def associations(environment: Environment) -> Items[Association]:
    for key, lustre in lustres(environment):
        yield from listed((*key, "associations"), lustre.associations)


def openzfs(environment: Environment) -> Items[OpenZfs]:
    if environment.storage.openzfs is not None:
        yield ("storage", "openzfs"), environment.storage.openzfs


def volumes(environment: Environment) -> Items[Volume]:
    for key, system in openzfs(environment):
        yield from listed((*key, "volumes"), system.volumes)


def existing(environment: Environment) -> Items[ExistingFileSystem]:
    return listed(("storage", "existing"), environment.storage.existing)


def shared(environment: Environment) -> Items[Lustre | Volume | ExistingFileSystem]:
    """Everything that is mounted on all nodes."""
    yield from lustres(environment)
    yield from volumes(environment)
    yield from existing(environment)


def mounts(environment: Environment) -> Items[str]:
    """The mount point of each of them."""
    for key, item in shared(environment):
        yield (*key, "mount"), item.mount


def queues(environment: Environment) -> Items[Queue]:
    return listed(("cluster", "queues"), environment.cluster.queues)


def computes(environment: Environment) -> Items[Compute]:
    for key, queue in queues(environment):
        yield from listed((*key, "compute"), queue.compute)


def models(environment: Environment) -> Items[Model]:
    return listed(("models",), environment.models)


def repositories(environment: Environment) -> Items[Repository]:
    return listed(("images", "repositories"), environment.images.repositories)


def type_uses(environment: Environment) -> Items[TypeUse]:
    cluster = environment.cluster
    yield ("cluster", "head_node", "instance_type"), TypeUse(cluster.head_node.instance_type, "head")
    if cluster.login_nodes:
        yield ("cluster", "login_nodes", "instance_type"), TypeUse(cluster.login_nodes.instance_type, "login")
    for key, compute in computes(environment):
        for at, name in listed((*key, "instance_types"), compute.instance_types):
            yield at, TypeUse(name, "compute")
    if environment.observability.prometheus:
        yield ("observability", "instance_type"), TypeUse(environment.observability.instance_type, "monitoring")


def overlap(first: str, second: str) -> bool:
    """Whether two absolute paths are equal, or one is inside the other."""
    a, b = first.rstrip("/") + "/", second.rstrip("/") + "/"
    return a.startswith(b) or b.startswith(a)


def clashes(
    items: Iterable[tuple[KeyPath, T]], clash: Callable[[tuple[KeyPath, T], tuple[KeyPath, T]], bool]
) -> Iterator[tuple[KeyPath, T, KeyPath, T]]:
    """Each item that clashes with an earlier one, with the first such one: key, item, key of the other, the other."""
    before: list[tuple[KeyPath, T]] = []
    for item in items:
        first = next((other for other in before if clash(item, other)), None)
        if first:
            yield *item, *first
        before.append(item)

"""Names that ParallelCluster, Slurm and CloudFormation take, and that nothing has twice."""

from __future__ import annotations

from collections.abc import Iterator

from settings.faults import KeyPath, key_text
from settings.model import Environment
from settings.model.cluster import Queue
from settings.rules.finding import Finding, rule, rule_for_each
from settings.rules.items import computes, doubled, has, lustres, models, queues, volumes

CLUSTER_NAME_WITH_ACCOUNTING = 40
STACKS = ("network", "storage", "data-links", "images", "api", "cluster")


@rule
def cluster(environment: Environment) -> Iterator[Finding]:
    """At most 40 characters with accounting, where Slurm puts the name into table names of its database.
    The cluster's own CloudFormation stack has the cluster's name, so it must not be that of one of ours.

    Source: ParallelCluster 3.16.1, PCLUSTER_NAME_MAX_LENGTH_SLURM_ACCOUNTING. (60 without accounting: in
    the model.)
    """
    name = environment.cluster_name
    key: KeyPath = ("cluster", "name") if environment.cluster.name else ("name",)
    if environment.cluster.slurm.accounting and len(name) > CLUSTER_NAME_WITH_ACCOUNTING:
        allowed = f"at most {CLUSTER_NAME_WITH_ACCOUNTING} characters with accounting"
        yield Finding(key, f"{name} ({len(name)} characters)", allowed)
    if name in {f"{environment.name}-{stack}" for stack in STACKS}:
        yield Finding(key, name, "a name that none of the environment's own stacks has", "take another name")


@rule
def predecessor(environment: Environment) -> Iterator[Finding]:
    """A cluster takes over from another, not from itself."""
    if environment.cluster.predecessor == environment.cluster_name:
        given = environment.cluster.predecessor
        yield Finding(
            ("cluster", "predecessor"), given, "another name than the cluster's own", "give the new one a name"
        )


def _not_default(key: KeyPath, name: str) -> Iterator[Finding]:
    if name == "default":
        yield Finding((*key, "name"), name, "any other name: ParallelCluster forbids this one")


@rule
def not_default(environment: Environment) -> Iterator[Finding]:
    """No queue, compute resource or pool of login nodes is called `default`.

    Source: ParallelCluster 3.16.1, NameValidator.
    """
    for key, queue in queues(environment):
        if has(queue, "name"):
            yield from _not_default(key, queue.name)
    for key, compute in computes(environment):
        if has(compute, "name"):
            yield from _not_default(key, compute.name)


@rule
def not_default_storage(environment: Environment) -> Iterator[Finding]:
    """Nor a file system that the cluster mounts. Source: ParallelCluster 3.16.1, SharedStorageNameValidator."""
    for key, lustre in lustres(environment):
        if has(lustre, "name"):
            yield from _not_default(key, lustre.name)
    for key, volume in volumes(environment):
        if has(volume, "name"):
            yield from _not_default(key, volume.name)


@rule
def login_pool(environment: Environment) -> Iterator[Finding]:
    """The login nodes' pool is named as queues are. Source: as for `not_default`."""
    login = environment.cluster.login_nodes
    if login:
        yield from _not_default(("cluster", "login_nodes"), login.name)


def _once(named: list[tuple[KeyPath, str]], what: str) -> Iterator[Finding]:
    for key, name, first in doubled(named):
        yield Finding(key, f"{name}, the name of {key_text(first[:-1])} too", f"a name that no other {what} has")


@rule
def queues_once(environment: Environment) -> Iterator[Finding]:
    """Each queue's name once."""
    yield from _once([((*key, "name"), item.name) for key, item in queues(environment) if has(item, "name")], "queue")


@rule_for_each(queues)
def computes_once(_: Environment, key: KeyPath, queue: Queue) -> Iterator[Finding]:
    """Each compute resource's name once in its queue: nodes are called <queue>-dy-<compute
    resource>-<number>.
    """
    named: list[tuple[KeyPath, str]] = [
        ((*key, "compute", index, "name"), item.name) for index, item in enumerate(queue.compute) if has(item, "name")
    ]
    yield from _once(named, "compute resource of the queue")


@rule
def file_systems_once(environment: Environment) -> Iterator[Finding]:
    """Lustre file systems and OpenZFS volumes share the cluster's names of storage."""
    named: list[tuple[KeyPath, str]] = []
    if has(environment.storage, "lustre"):
        named += [((*key, "name"), item.name) for key, item in lustres(environment) if has(item, "name")]
    if has(environment.storage, "openzfs") and (not (zfs := environment.storage.openzfs) or has(zfs, "volumes")):
        named += [((*key, "name"), item.name) for key, item in volumes(environment) if has(item, "name")]
    yield from _once(named, "file system or volume")


@rule
def models_once(environment: Environment) -> Iterator[Finding]:
    """Each training project's name once."""
    yield from _once([((*key, "name"), item.name) for key, item in models(environment) if has(item, "name")], "model")


RULES = (
    predecessor,
    cluster,
    not_default,
    not_default_storage,
    login_pool,
    queues_once,
    computes_once,
    file_systems_once,
    models_once,
)

"""Nodes: instance types, numbers of nodes, health checks, images and root volumes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from settings.explain import suggestion
from settings.faults import KeyPath
from settings.instances import InstanceFacts, instance_types, region_families
from settings.model import Environment
from settings.model.cluster import Compute, Queue, RootVolume
from settings.rules.finding import Finding, for_each
from settings.rules.items import TypeUse, computes, queues, type_uses

MAX_COMPUTE_RESOURCES = 50
SOURCE_OF_TYPES = "scripts/instance_types.py updates the list, or add the type to settings/data/additions.json"

NODES_PER_GIB, SYSTEM_GIB, MAX_HEAD_GIB = 25, 0.6, 16
MEMORY_MARGIN_MIB, MEMORY_MARGIN = 4096, 0.2
IOPS_PER_GIB = 500
IOPS_PER_MB_S = 4


def _family(name: str) -> str:
    return name.split(".", maxsplit=1)[0]


@for_each(type_uses)
def known(_: Environment, key: KeyPath, use: TypeUse) -> Iterator[Finding]:
    """The type exists. Source: settings/data."""
    if use.name not in instance_types():
        meant = suggestion(use.name, list(instance_types()))
        advice = f"{meant} For a newer type: {SOURCE_OF_TYPES}".strip()
        yield Finding(key, use.name, "an EC2 instance type (x86_64 or arm64)", advice)


@for_each(type_uses)
def offered(environment: Environment, key: KeyPath, use: TypeUse) -> Iterator[Finding]:
    """The region offers the family. (The preflight checks the zone.) Source: settings/data."""
    families = region_families().get(environment.region)
    family = _family(use.name)
    if families is None or use.name not in instance_types() or family in families:
        return
    regions = sorted(region for region, offers in region_families().items() if family in offers)
    advice = f"{family} is offered in {', '.join(regions)}" if regions else f"no known region offers {family}"
    similar = _similar(use.name, families) if use.role != "compute" else []
    if similar:
        advice = f"of the same size there: {', '.join(similar)}"
    yield Finding(key, use.name, f"a type that {environment.region} offers", f"{advice}; {SOURCE_OF_TYPES}")


def _similar(name: str, families: frozenset[str]) -> list[str]:
    def size(facts: InstanceFacts) -> tuple[object, ...]:
        return facts.vcpus, facts.memory_mib, facts.architecture, facts.gpus

    wanted = size(instance_types()[name])
    return sorted(
        other
        for other, facts in instance_types().items()
        if size(facts) == wanted and _family(other) in families and other[0] == name[0] and "flex" not in other
    )[-3:]


@for_each(type_uses)
def architecture(environment: Environment, key: KeyPath, use: TypeUse) -> Iterator[Finding]:
    """Nodes have the head node's architecture. Source: ParallelCluster, InstanceArchitectureCompatibilityValidator."""
    head = instance_types().get(environment.cluster.head_node.instance_type)
    facts = instance_types().get(use.name)
    if head and facts and facts.architecture != head.architecture:
        given = f"{use.name} ({facts.architecture})"
        allowed = f"a type of the head node's architecture, {head.architecture}"
        yield Finding(key, given, allowed, "change this type or cluster.head_node.instance_type")


def _facts(compute: Compute) -> list[tuple[int, str, InstanceFacts]]:
    types = instance_types()
    return [(i, name, types[name]) for i, name in enumerate(compute.instance_types) if name in types]


@for_each(computes)
def efa(_: Environment, key: KeyPath, compute: Compute) -> Iterator[Finding]:
    """EFA only on types that have it. Source: ParallelCluster, EfaValidator and InstancesEFAValidator."""
    for _index, name, facts in _facts(compute):
        if compute.efa and not facts.efa_interfaces:
            family = _family(name)
            able = [o for o, its in instance_types().items() if _family(o) == family and its.efa_interfaces]
            advice = f"types of the family with EFA: {', '.join(able) or 'none'}"
            yield Finding((*key, "efa"), f"true, with {name}", "false: this type has no EFA", advice)


SAME: tuple[tuple[str, Callable[[InstanceFacts], int]], ...] = (
    ("vCPUs", lambda facts: facts.vcpus),
    ("GPUs", lambda facts: facts.gpus),
    ("Neuron devices", lambda facts: facts.neuron_devices),
)


@for_each(computes)
def interchangeable(_: Environment, key: KeyPath, compute: Compute) -> Iterator[Finding]:
    """Types of one compute resource have as many vCPUs, GPUs and accelerators. Each type is listed once.

    Source: ParallelCluster, InstancesCPUValidator and InstancesAcceleratorsValidator.
    """
    if len(set(compute.instance_types)) != len(compute.instance_types):
        yield Finding((*key, "instance_types"), ", ".join(compute.instance_types), "each type once")
    facts = _facts(compute)
    for what, count in SAME:
        for index, name, its in facts[1:]:
            first, first_facts = facts[0][1:]
            if count(its) != count(first_facts):
                yield Finding(
                    (*key, "instance_types", index),
                    f"{name} with {count(its)} {what}",
                    f"types with as many {what} as {first}, which has {count(first_facts)}",
                    "put it into a compute resource of its own",
                )


@for_each(computes)
def memory(environment: Environment, key: KeyPath, compute: Compute) -> Iterator[Finding]:
    """Scheduling by memory uses the smallest type's memory for all types of a compute resource; the rest is unused.

    Source: ParallelCluster, InstancesMemorySchedulingWarningValidator, which only warns, beyond 4 GiB and 20 %.
    """
    facts = _facts(compute)
    if not environment.cluster.slurm.memory_scheduling or not facts:
        return
    smallest, smallest_facts = min(facts, key=lambda fact: fact[2].memory_mib)[1:]
    least = smallest_facts.memory_mib
    for index, name, its in facts:
        if its.memory_mib - least > max(MEMORY_MARGIN_MIB, least * MEMORY_MARGIN):
            yield Finding(
                (*key, "instance_types", index),
                f"{name} with {its.memory_mib // 1024} GiB, under memory_scheduling",
                f"types with about the memory of {smallest}, {least // 1024} GiB",
                "put it into a compute resource of its own",
            )


@for_each(computes)
def counts(_: Environment, key: KeyPath, compute: Compute) -> Iterator[Finding]:
    """min is at most max."""
    if compute.min > compute.max:
        yield Finding((*key, "min"), f"{compute.min}, with max {compute.max}", f"at most max, {compute.max}")


def resources(environment: Environment) -> Iterator[Finding]:
    """At most 50 compute resources. Source: ParallelCluster, MAX_NUMBER_OF_COMPUTE_RESOURCES_PER_CLUSTER."""
    total = len(list(computes(environment)))
    if total > MAX_COMPUTE_RESOURCES:
        allowed = f"at most {MAX_COMPUTE_RESOURCES} in all queues together"
        yield Finding(("cluster", "queues"), f"{total} compute resources", allowed)


def head_memory(environment: Environment) -> Iterator[Finding]:
    """The head node needs 0.6 GiB and one GiB for each 25 nodes, but not more than 16 GiB.

    Source: ParallelCluster, HeadNodeMemorySizeValidator.
    """
    name = environment.cluster.head_node.instance_type
    facts = instance_types().get(name)
    nodes = sum(compute.max for _, compute in computes(environment))
    needed = min(nodes / NODES_PER_GIB + SYSTEM_GIB, MAX_HEAD_GIB)
    if facts and facts.memory_mib / 1024 < needed:
        given = f"{name} with {facts.memory_mib / 1024:g} GiB for {nodes} nodes"
        yield Finding(("cluster", "head_node", "instance_type"), given, f"a type with at least {needed:g} GiB")


@for_each(queues)
def gpu_check(_: Environment, key: KeyPath, queue: Queue) -> Iterator[Finding]:
    """The GPU health check needs GPUs."""
    if not queue.gpu_health_check:
        return
    for compute in queue.compute:
        without = [name for _, name, its in _facts(compute) if not its.gpus]
        if without:
            given = f"true, with {', '.join(without)} in {compute.name}"
            yield Finding((*key, "gpu_health_check"), given, "true only if all types have GPUs")


def _node_groups(environment: Environment) -> Iterator[tuple[KeyPath, str | None, RootVolume]]:
    head = environment.cluster.head_node
    yield ("cluster", "head_node"), head.ami, head.root_volume
    for key, queue in queues(environment):
        yield key, queue.ami, queue.root_volume


def private_images(environment: Environment) -> Iterator[Finding]:
    """ParallelCluster publishes no images for Rocky Linux. Source: its PRIVATE_OSES."""
    os = environment.cluster.os
    for key, image, _ in _node_groups(environment):
        if os.startswith("rocky") and image is None:
            allowed = "the id of your own image: ParallelCluster publishes none"
            advice = "build one with pcluster build-image, or choose another os"
            yield Finding((*key, "ami"), f"no ami, with os {os}", allowed, advice)


def root_volumes(environment: Environment) -> Iterator[Finding]:
    """gp3 has up to 500 IOPS per GiB and 0.25 MB/s per IOPS. Source: EBS user guide, "General Purpose SSD"."""
    for key, _, volume in _node_groups(environment):
        most_iops = volume.size_gib * IOPS_PER_GIB
        if volume.iops > most_iops:
            given = f"{volume.iops} on {volume.size_gib} GiB"
            yield Finding((*key, "root_volume", "iops"), given, f"at most {IOPS_PER_GIB} per GiB: {most_iops}")
        if volume.throughput > volume.iops / IOPS_PER_MB_S:
            given = f"{volume.throughput} with {volume.iops} IOPS"
            allowed = f"at most {volume.iops // IOPS_PER_MB_S}"
            advice = f"set iops to {volume.throughput * IOPS_PER_MB_S} or more"
            yield Finding((*key, "root_volume", "throughput"), given, allowed, advice)


RULES = (
    *(known, offered, architecture, efa, interchangeable, memory, counts),
    *(resources, head_memory, gpu_check, private_images, root_volumes),
)

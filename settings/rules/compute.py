"""Instance types: known, offered, of one architecture, fit for EFA and for each other."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator

from settings.faults import KeyPath
from settings.instances import InstanceFacts, instance_types, region_families
from settings.model import Environment
from settings.model.cluster import Compute, Queue
from settings.rules.finding import Finding, rule, rule_for_each
from settings.rules.items import TypeUse, computes, queues, type_uses

MOST_COMPUTE = 50


@rule_for_each(type_uses)
def known(_: Environment, key: KeyPath, use: TypeUse) -> Iterator[Finding]:
    """The type exists. Source: settings/data/instance_types.json."""
    if use.name not in instance_types():
        near = difflib.get_close_matches(use.name, instance_types(), n=1, cutoff=0.6)
        meant = f"did you mean {near[0]}? " if near else ""
        advice = f"{meant}A type that is newer than the table comes in with scripts/instance_types.py"
        yield Finding(key, use.name, "an instance type of EC2 (x86_64 or arm64)", advice)


@rule_for_each(type_uses)
def offered(environment: Environment, key: KeyPath, use: TypeUse) -> Iterator[Finding]:
    """The region offers the family. Zones are not looked at here. Source:
    settings/data/region_families.json.
    """
    families = region_families().get(environment.region)
    family = use.name.split(".")[0]
    if families is None or use.name not in instance_types() or family in families:
        return
    elsewhere = sorted(region for region, offers in region_families().items() if family in offers)
    advice = f"{family} is offered in {', '.join(elsewhere)}" if elsewhere else f"no known region offers {family}"
    if use.role != "compute":
        alike = _alike(use.name, families)
        advice = f"of the same size there: {', '.join(alike)}" if alike else advice
    allowed = f"a type that {environment.region} offers"
    yield Finding(key, use.name, allowed, f"{advice}; newer offers come in with scripts/instance_types.py")


def _alike(name: str, families: frozenset[str]) -> list[str]:
    wanted = instance_types()[name]
    same = [
        other
        for other, facts in instance_types().items()
        if facts.vcpus == wanted.vcpus
        and facts.memory_mib == wanted.memory_mib
        and facts.architecture == wanted.architecture
        and facts.gpus == wanted.gpus
        and other.split(".")[0] in families
        and other[0] == name[0]
        and "flex" not in other
    ]
    return sorted(same)[-3:]


@rule_for_each(type_uses)
def architecture(environment: Environment, key: KeyPath, use: TypeUse) -> Iterator[Finding]:
    """All nodes have the head node's architecture. Source: ParallelCluster,
    InstanceArchitectureCompatibilityValidator.
    """
    head = instance_types().get(environment.cluster.head_node.instance_type)
    facts = instance_types().get(use.name)
    if head and facts and facts.architecture != head.architecture:
        given = f"{use.name} ({facts.architecture})"
        allowed = f"a type of the head node's architecture, {head.architecture}"
        yield Finding(key, given, allowed, "change this type or cluster.head_node.instance_type")


def _facts(compute: Compute) -> list[tuple[int, str, InstanceFacts]]:
    types = instance_types()
    return [(i, name, types[name]) for i, name in enumerate(compute.instance_types) if name in types]


@rule_for_each(computes)
def efa(_: Environment, key: KeyPath, compute: Compute) -> Iterator[Finding]:
    """EFA on types that have it. Source: ParallelCluster, EfaValidator and InstancesEFAValidator."""
    for _index, name, facts in _facts(compute):
        if compute.efa and not facts.efa_interfaces:
            larger = [
                other
                for other, its in instance_types().items()
                if other.split(".")[0] == name.split(".")[0] and its.efa_interfaces
            ]
            advice = (
                f"of the family, {', '.join(larger)} can"
                if larger
                else f"no type of the family {name.split('.')[0]} can"
            )
            yield Finding((*key, "efa"), f"true, with {name}", "false: this type has no EFA", advice)


SAME: tuple[tuple[str, Callable[[InstanceFacts], object]], ...] = (
    ("vCPUs", lambda facts: facts.vcpus),
    ("GPUs", lambda facts: facts.gpus),
    ("Neuron devices", lambda facts: facts.neuron_devices),
)


@rule_for_each(computes)
def alike(_: Environment, key: KeyPath, compute: Compute) -> Iterator[Finding]:
    """Types of one compute resource count as the same node: as many vCPUs, GPUs and accelerators, and each
    type once.

    Source: ParallelCluster, InstancesCPUValidator and InstancesAcceleratorsValidator.
    """
    if len(set(compute.instance_types)) != len(compute.instance_types):
        yield Finding((*key, "instance_types"), ", ".join(compute.instance_types), "each type once")
    facts = _facts(compute)
    for what, count in SAME:
        for index, name, its in facts[1:]:
            if count(its) != count(facts[0][2]):
                yield Finding(
                    (*key, "instance_types", index),
                    f"{name} with {count(its)} {what}",
                    f"types with as many {what} as {facts[0][1]}, which has {count(facts[0][2])}",
                    "put it into a compute resource of its own",
                )


@rule_for_each(computes)
def memory(environment: Environment, key: KeyPath, compute: Compute) -> Iterator[Finding]:
    """Scheduling by memory knows one size for all types of a compute resource, the smallest; the rest would
    lie idle.

    Source: ParallelCluster, InstancesMemorySchedulingWarningValidator, which only warns, beyond 4 GiB and 20 %.
    """
    facts = _facts(compute)
    if not environment.cluster.slurm.memory_scheduling or len(facts) < 2:
        return
    smallest = min(facts, key=lambda fact: fact[2].memory_mib)
    for index, name, its in facts:
        more = its.memory_mib - smallest[2].memory_mib
        if more > 4096 and more > smallest[2].memory_mib * 0.2:
            yield Finding(
                (*key, "instance_types", index),
                f"{name} with {its.memory_mib // 1024} GiB, under memory_scheduling",
                f"types with about the memory of {smallest[1]}, {smallest[2].memory_mib // 1024} GiB",
                "put it into a compute resource of its own",
            )


@rule_for_each(computes)
def counts(_: Environment, key: KeyPath, compute: Compute) -> Iterator[Finding]:
    """At least as many nodes may run as always run."""
    if compute.min > compute.max:
        yield Finding((*key, "min"), f"{compute.min}, with max {compute.max}", f"at most max, {compute.max}")


@rule
def resources(environment: Environment) -> Iterator[Finding]:
    """At most 50 compute resources a cluster. Source: ParallelCluster,
    MAX_NUMBER_OF_COMPUTE_RESOURCES_PER_CLUSTER.
    """
    total = sum(len(queue.compute) for _, queue in queues(environment))
    if total > MOST_COMPUTE:
        allowed = f"at most {MOST_COMPUTE} in all queues together"
        yield Finding(("cluster", "queues"), f"{total} compute resources", allowed)


@rule
def head_memory(environment: Environment) -> Iterator[Finding]:
    """The head node needs a GiB for each 25 nodes and 0.6 for the system, up to 16.

    Source: ParallelCluster, HeadNodeMemorySizeValidator.
    """
    name = environment.cluster.head_node.instance_type
    facts = instance_types().get(name)
    nodes = sum(compute.max for _, compute in computes(environment))
    needed = min(nodes / 25 + 0.6, 16)
    if facts and facts.memory_mib / 1024 < needed:
        given = f"{name} with {facts.memory_mib / 1024:g} GiB for {nodes} nodes"
        allowed = f"a type with at least {needed:g} GiB"
        yield Finding(("cluster", "head_node", "instance_type"), given, allowed)


@rule_for_each(queues)
def gpu_check(_: Environment, key: KeyPath, queue: Queue) -> Iterator[Finding]:
    """The GPU health check needs GPUs."""
    if not queue.gpu_health_check:
        return
    for compute in queue.compute:
        without = [name for _, name, its in _facts(compute) if not its.gpus]
        if without:
            given = f"true, with {', '.join(without)} in {compute.name}"
            yield Finding((*key, "gpu_health_check"), given, "true only where all types have GPUs")


@rule
def private_images(environment: Environment) -> Iterator[Finding]:
    """ParallelCluster publishes no images for Rocky Linux. Source: its PRIVATE_OSES."""
    cluster = environment.cluster
    if not cluster.os.startswith("rocky"):
        return
    images: list[tuple[KeyPath, str | None]] = [(("cluster", "head_node"), cluster.head_node.ami)]
    images += [(key, queue.ami) for key, queue in queues(environment)]
    for key, image in images:
        if image is None:
            given = f"no ami, with os {cluster.os}"
            allowed = "the id of an image of your own: ParallelCluster publishes none"
            yield Finding((*key, "ami"), given, allowed, "build one with pcluster build-image, or take another os")


RULES = (
    *(known, offered, architecture, efa, alike, memory, counts),
    *(resources, head_memory, gpu_check, private_images),
)

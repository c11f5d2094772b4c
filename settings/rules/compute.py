"""Nodes: instance types, capacity, numbers of nodes, health checks, images and root volumes."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from settings.faults import KeyPath, suggestion
from settings.instances import InstanceFacts, instance_types, region_families
from settings.model import Environment
from settings.model.cluster import Compute, HeadNode, Queue
from settings.rules.items import Finding, Items, TypeUse, computes, for_each, queues, type_uses

MAX_COMPUTE_RESOURCES = 50
SOURCE_OF_TYPES = "scripts/instance_types.py updates the list, or add the type to settings/data/additions.json"

NODES_PER_GIB, SYSTEM_GIB, MAX_HEAD_GIB = 25, 0.6, 16
MEMORY_MARGIN_MIB, MEMORY_MARGIN = 4096, 0.2
IOPS_PER_MB_S = 4
ALIKE = {"vcpus": "vCPUs", "gpus": "GPUs", "neuron_devices": "Neuron devices"}


def _family(name: str) -> str:
    return name.split(".", maxsplit=1)[0]


@for_each(type_uses)
def known(environment: Environment, key: KeyPath, use: TypeUse) -> Iterator[Finding]:
    """The type exists, and nodes have the head node's architecture. The monitoring host's programs are for x86_64.

    Source: settings/data; ParallelCluster, InstanceArchitectureCompatibilityValidator.
    """
    facts = instance_types().get(use.name)
    if facts is None:
        meant = suggestion(use.name, list(instance_types()))
        advice = f"{meant} For a newer type: {SOURCE_OF_TYPES}".strip()
        yield Finding(key, use.name, "an EC2 instance type (x86_64 or arm64)", advice)
        return
    if use.role == "monitoring":
        if facts.architecture != "x86_64":
            yield Finding(key, f"{use.name} ({facts.architecture})", "a type of the architecture x86_64")
        return
    head = instance_types().get(environment.cluster.head_node.instance_type)
    if head and facts.architecture != head.architecture:
        given = f"{use.name} ({facts.architecture})"
        allowed = f"a type of the head node's architecture, {head.architecture}"
        yield Finding(key, given, allowed, "change this type or cluster.head_node.instance_type")


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
        advice = f"use a type of the same size: {', '.join(similar)}"
    yield Finding(key, use.name, f"a type that {environment.region} offers", f"{advice}; {SOURCE_OF_TYPES}")


def _similar(name: str, families: frozenset[str]) -> list[str]:
    size = attrgetter("vcpus", "memory_mib", "architecture", "gpus")
    wanted = size(instance_types()[name])
    return sorted(
        other
        for other, facts in instance_types().items()
        if size(facts) == wanted and _family(other) in families and other[0] == name[0] and "flex" not in other
    )[-3:]


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


@for_each(computes)
def interchangeable(environment: Environment, key: KeyPath, compute: Compute) -> Iterator[Finding]:
    """Types of one compute resource have as many vCPUs, GPUs and accelerators. Each type is listed once.

    Scheduling by memory uses the smallest type's memory for all types; the rest is unused. Source: ParallelCluster,
    InstancesCPUValidator, InstancesAcceleratorsValidator and InstancesMemorySchedulingWarningValidator, which only
    warns, beyond 4 GiB and 20 %.
    """
    if len(set(compute.instance_types)) != len(compute.instance_types):
        yield Finding((*key, "instance_types"), ", ".join(compute.instance_types), "each type once")
    facts = _facts(compute)
    if not facts:
        return
    advice = "put it into a compute resource of its own"
    _, first, first_facts = facts[0]
    _, smallest, smallest_facts = min(facts, key=lambda fact: fact[2].memory_mib)
    least = smallest_facts.memory_mib
    for index, name, its in facts:
        at = (*key, "instance_types", index)
        for field, what in ALIKE.items():
            count, wanted = getattr(its, field), getattr(first_facts, field)
            if count != wanted:
                allowed = f"types with as many {what} as {first}, which has {wanted}"
                yield Finding(at, f"{name} with {count} {what}", allowed, advice)
        margin = max(MEMORY_MARGIN_MIB, least * MEMORY_MARGIN)
        if environment.cluster.slurm.memory_scheduling and its.memory_mib - least > margin:
            given = f"{name} with {its.memory_mib // 1024} GiB, under memory_scheduling"
            yield Finding(at, given, f"types with about the memory of {smallest}, {least // 1024} GiB", advice)


def fleet(environment: Environment) -> Iterator[Finding]:
    """min is at most max. There are at most 50 compute resources.

    The head node needs 0.6 GiB and one GiB for each 25 nodes, but not more than 16 GiB. Source:
    ParallelCluster, MAX_NUMBER_OF_COMPUTE_RESOURCES_PER_CLUSTER and HeadNodeMemorySizeValidator.
    """
    found = [compute for _, compute in computes(environment)]
    for key, compute in computes(environment):
        if compute.min > compute.max:
            yield Finding((*key, "min"), f"{compute.min}, with max {compute.max}", f"at most max, {compute.max}")
    if len(found) > MAX_COMPUTE_RESOURCES:
        allowed = f"at most {MAX_COMPUTE_RESOURCES} in all queues together"
        yield Finding(("cluster", "queues"), f"{len(found)} compute resources", allowed)
    name, nodes = environment.cluster.head_node.instance_type, sum(compute.max for compute in found)
    facts = instance_types().get(name)
    needed = min(nodes / NODES_PER_GIB + SYSTEM_GIB, MAX_HEAD_GIB)
    if facts and facts.memory_mib / 1024 < needed:
        given = f"{name} with {facts.memory_mib / 1024:g} GiB for {nodes} nodes"
        yield Finding(("cluster", "head_node", "instance_type"), given, f"a type with at least {needed:g} GiB")


@for_each(queues)
def gpu_check(_: Environment, key: KeyPath, queue: Queue) -> Iterator[Finding]:
    """The GPU health check needs GPUs."""
    for compute in queue.compute if queue.gpu_health_check else ():
        without = [name for _, name, its in _facts(compute) if not its.gpus]
        if without:
            given = f"true, with {', '.join(without)} in {compute.name}"
            yield Finding((*key, "gpu_health_check"), given, "true only if all types have GPUs")


def _node_groups(environment: Environment) -> Items[HeadNode | Queue]:
    yield ("cluster", "head_node"), environment.cluster.head_node
    yield from queues(environment)


@for_each(_node_groups)
def disks(environment: Environment, key: KeyPath, group: HeadNode | Queue) -> Iterator[Finding]:
    """ParallelCluster publishes no images for Rocky Linux. Those for RHEL lack the Systems Manager agent, which users,
    validation and the handler's count of jobs need on the head node. gp3 has up to 0.25 MB/s per IOPS.

    Sources: PRIVATE_OSES of ParallelCluster; Systems Manager user guide, "Find AMIs with the SSM Agent preinstalled",
    which lists no RHEL, and aws-parallelcluster-cookbook f75d84c, which installs no agent; EBS user guide, "General
    Purpose SSD". (The limit of 500 IOPS per GiB is above the most IOPS of the model at the least size.)
    """
    os, volume = environment.cluster.os, group.root_volume
    if os.startswith("rocky") and group.ami is None:
        allowed = "the id of your own image: ParallelCluster publishes none"
        advice = "build one with pcluster build-image, or choose another os"
        yield Finding((*key, "ami"), f"no ami, with os {os}", allowed, advice)
    if os.startswith("rhel") and group.ami is None and isinstance(group, HeadNode):
        allowed = "the id of your own image with the Systems Manager agent, which ParallelCluster's image lacks"
        advice = "install amazon-ssm-agent in an image built with pcluster build-image, or choose another os"
        yield Finding((*key, "ami"), f"no ami, with os {os}", allowed, advice)
    if volume.throughput > volume.iops / IOPS_PER_MB_S:
        given = f"{volume.throughput} with {volume.iops} IOPS"
        advice = f"set iops to {volume.throughput * IOPS_PER_MB_S} or more"
        at = (*key, "root_volume", "throughput")
        yield Finding(at, given, f"at most {volume.iops // IOPS_PER_MB_S}", advice)


@for_each(queues)
def reservation(_: Environment, key: KeyPath, queue: Queue) -> Iterator[Finding]:
    """odcr needs one reservation or one group, capacity-block needs its id, the other types allow neither.

    A reservation holds one instance type. ParallelCluster accepts SPOT with a reservation silently and never uses the
    reservation. Source: ParallelCluster 3.16.1, CapacityTypeValidator and CapacityReservationValidator.
    """
    at = (*key, "capacity")
    capacity = queue.capacity
    one, group = capacity.reservation, capacity.reservation_group
    if capacity.type == "odcr" and bool(one) == bool(group):
        given = "both" if one else "neither"
        yield Finding(at, f"odcr with {given} of reservation and reservation_group", "exactly one of them")
    if capacity.type == "capacity-block":
        if not one:
            yield Finding(at, "capacity-block without reservation", "the id of the capacity block as reservation")
        if group:
            yield Finding((*at, "reservation_group"), group, "no value: for a capacity block, set reservation only")
    if capacity.type in {"on-demand", "spot"}:
        for name, value in (("reservation", one), ("reservation_group", group)):
            if value:
                given = f"{value}, with type {capacity.type}"
                kinds = "odcr" if name == "reservation_group" else "odcr or capacity-block"
                advice = f"set type: {kinds}, or remove {name}"
                yield Finding((*at, name), given, "no reservation with this type", advice)
    names = {name for compute in queue.compute for name in compute.instance_types}
    if one and len(names) > 1:
        given, allowed = f"{one}, with {', '.join(sorted(names))}", "one instance type in a queue with a reservation"
        advice = "make a queue for each reservation, or use reservation_group"
        yield Finding((*at, "reservation"), given, allowed, advice)


@for_each(queues)
def capacity_block(_: Environment, key: KeyPath, queue: Queue) -> Iterator[Finding]:
    """A capacity block is launched as a whole (min = max), with its own placement: in a placement group launches fail.

    Source: ParallelCluster 3.16.1, capacity blocks; PlacementGroupCapacityTypeValidator, which only warns.
    """
    if queue.capacity.type != "capacity-block":
        return
    for index, compute in enumerate(queue.compute):
        if compute.min != compute.max:
            given = f"{compute.min}, with max {compute.max} in a capacity block"
            at = (*key, "compute", index, "min")
            yield Finding(at, given, "min = max, the size of the block", f"use {compute.max}")
    if queue.placement_group:
        allowed = "false: a capacity block has its own placement"
        yield Finding((*key, "placement_group"), "true, with a capacity block", allowed)


RULES = (known, offered, efa, interchangeable, fleet, gpu_check, disks, reservation, capacity_block)

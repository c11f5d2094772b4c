"""What a queue's instances are taken from."""

from __future__ import annotations

from collections.abc import Iterator

from settings.faults import KeyPath
from settings.model import Environment
from settings.model.cluster import Queue
from settings.rules.finding import Finding, rule_for_each
from settings.rules.items import has, queues


@rule_for_each(queues)
def reservation(_: Environment, key: KeyPath, queue: Queue) -> Iterator[Finding]:
    """ODCR takes one reservation or a group of them, a capacity block takes its id, and the others take
    neither.

    ParallelCluster accepts SPOT with a reservation without a word, and never uses the reservation. Source
    for the capacity block: ParallelCluster 3.16.1, CapacityTypeValidator.
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
            allowed = "reservation alone: a capacity block is named by its id"
            yield Finding((*at, "reservation_group"), group, allowed)
    if capacity.type in {"on-demand", "spot"}:
        for name, value in (("reservation", one), ("reservation_group", group)):
            if value:
                advice = "set type: odcr or capacity-block, or take the reservation out"
                yield Finding((*at, name), f"{value}, with type {capacity.type}", "nothing with this type", advice)


@rule_for_each(queues)
def block_is_fixed(_: Environment, key: KeyPath, queue: Queue) -> Iterator[Finding]:
    """A capacity block is launched as a whole: min = max > 0. Source: ParallelCluster 3.16.1, capacity
    blocks.
    """
    if queue.capacity.type != "capacity-block":
        return
    for index, compute in enumerate(queue.compute):
        if has(compute, "min") and has(compute, "max") and compute.min != compute.max:
            given = f"{compute.min}, with max {compute.max} in a capacity block"
            yield Finding(
                (*key, "compute", index, "min"), given, "min = max, the size of the block", f"use {compute.max}"
            )


@rule_for_each(queues)
def one_type(_: Environment, key: KeyPath, queue: Queue) -> Iterator[Finding]:
    """One reservation holds one instance type. Source: ParallelCluster 3.16.1, CapacityReservationValidator."""
    if not queue.capacity.reservation:
        return
    names = {name for compute in queue.compute for name in compute.instance_types}
    if len(names) > 1:
        yield Finding(
            (*key, "capacity", "reservation"),
            f"{queue.capacity.reservation}, with {', '.join(sorted(names))}",
            "one instance type in a queue with a reservation",
            "make a queue for each reservation, or use reservation_group",
        )


@rule_for_each(queues)
def placement(_: Environment, key: KeyPath, queue: Queue) -> Iterator[Finding]:
    """A placement group beside a capacity block is in conflict with the block's own placement: launches fail.

    Source: ParallelCluster 3.16.1, PlacementGroupCapacityTypeValidator, which only warns.
    """
    if queue.placement_group and queue.capacity.type == "capacity-block":
        allowed = "false: a capacity block brings its own placement"
        yield Finding((*key, "placement_group"), "true, with a capacity block", allowed)


RULES = (reservation, block_is_fixed, one_type, placement)

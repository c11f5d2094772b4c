"""The capacity that a queue's instances come from."""

from __future__ import annotations

from collections.abc import Iterator

from settings.faults import KeyPath
from settings.model import Environment
from settings.model.cluster import Queue
from settings.rules.finding import Finding, for_each
from settings.rules.items import queues


@for_each(queues)
def reservation(_: Environment, key: KeyPath, queue: Queue) -> Iterator[Finding]:
    """odcr needs one reservation or one group, capacity-block needs its id, the other types allow neither.

    ParallelCluster accepts SPOT with a reservation silently and never uses the reservation. Source for capacity
    blocks: ParallelCluster 3.16.1, CapacityTypeValidator.
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
            yield Finding((*at, "reservation_group"), group, "reservation alone: a capacity block has an id, no group")
    if capacity.type in {"on-demand", "spot"}:
        for name, value in (("reservation", one), ("reservation_group", group)):
            if value:
                given = f"{value}, with type {capacity.type}"
                advice = "set type: odcr or capacity-block, or remove the reservation"
                yield Finding((*at, name), given, "no reservation with this type", advice)


@for_each(queues)
def block_is_fixed(_: Environment, key: KeyPath, queue: Queue) -> Iterator[Finding]:
    """A capacity block is launched as a whole: min = max. Source: ParallelCluster 3.16.1, capacity blocks."""
    if queue.capacity.type != "capacity-block":
        return
    for index, compute in enumerate(queue.compute):
        if compute.min != compute.max:
            given = f"{compute.min}, with max {compute.max} in a capacity block"
            at = (*key, "compute", index, "min")
            yield Finding(at, given, "min = max, the size of the block", f"use {compute.max}")


@for_each(queues)
def one_type(_: Environment, key: KeyPath, queue: Queue) -> Iterator[Finding]:
    """A reservation holds one instance type. Source: ParallelCluster 3.16.1, CapacityReservationValidator."""
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


@for_each(queues)
def placement(_: Environment, key: KeyPath, queue: Queue) -> Iterator[Finding]:
    """A placement group conflicts with the placement of a capacity block: launches fail.

    Source: ParallelCluster 3.16.1, PlacementGroupCapacityTypeValidator, which only warns.
    """
    if queue.placement_group and queue.capacity.type == "capacity-block":
        allowed = "false: a capacity block has its own placement"
        yield Finding((*key, "placement_group"), "true, with a capacity block", allowed)


RULES = (reservation, block_is_fixed, one_type, placement)

"""On-demand prices in USD. Each price in prices.json names its source and date."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from settings.instances import DATA
from settings.model import Environment
from settings.model.cluster import Queue


@cache
def regions() -> Mapping[str, Mapping[str, Any]]:
    """The known prices of each region."""
    found: Mapping[str, Mapping[str, Any]] = json.loads((DATA / "prices.json").read_text("utf-8"))["regions"]
    return found


def hourly_usd(environment: Environment, queue: Queue, instance_types: Sequence[str]) -> dict[str, float | None]:
    """USD an hour of a node of each instance type in a queue; None if it is unknown.

    A price of `cost.prices` comes before the table's. Without one, a spot instance, whose price changes, and one of a
    capacity block, which is paid in advance, are unknown. EC2 charges an On-Demand Capacity Reservation at the
    on-demand price (EC2 user guide, Capacity Reservation pricing and billing).
    """
    own, table = environment.cost.prices, regions().get(environment.region, {}).get("instance_hour", {})
    listed = table if queue.capacity.type in ("on-demand", "odcr") else {}
    return {name: own.get(name, listed.get(name)) for name in instance_types}


def node_prices(environment: Environment) -> dict[str, float | None]:
    """USD for an hour of a node of each compute resource, of its dearest instance type, by `queue/compute`."""
    found: dict[str, float | None] = {}
    for queue in environment.cluster.queues:
        for compute in queue.compute:
            prices = hourly_usd(environment, queue, compute.instance_types).values()
            known = [price for price in prices if price is not None]
            found[f"{queue.name}/{compute.name}"] = max(known) if len(known) == len(prices) else None
    return found

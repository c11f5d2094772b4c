"""On-demand prices in USD. Each price in prices.json names its source and date."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from settings.instances import DATA
from settings.model import Environment
from settings.model.cluster import Compute, Queue


@cache
def regions() -> Mapping[str, Mapping[str, Any]]:
    """The known prices of each region."""
    found: Mapping[str, Mapping[str, Any]] = json.loads((DATA / "prices.json").read_text("utf-8"))["regions"]
    return found


def hourly(environment: Environment, instance_type: str) -> float | None:
    """USD for an hour of an instance: what the environment says that it pays, else on demand; None if unknown."""
    if (own := environment.cost.prices.get(instance_type)) is not None:
        return own
    found: float | None = regions().get(environment.region, {}).get("instance_hour", {}).get(instance_type)
    return found


def node_hourly(environment: Environment, queue: Queue, compute: Compute) -> float | None:
    """USD for an hour of a node of the dearest type of a compute resource; None if unknown.

    Prices of spot instances change and a capacity block is paid in advance, so only the environment can name them.
    """
    if queue.capacity.type in ("spot", "capacity-block"):
        found = [environment.cost.prices.get(name) for name in compute.instance_types]
    else:
        found = [hourly(environment, name) for name in compute.instance_types]
    known = [price for price in found if price is not None]
    return max(known) if len(known) == len(found) else None


def node_prices(environment: Environment) -> dict[str, float | None]:
    """USD for a node hour of each compute resource, by `queue/compute`."""
    return {
        f"{queue.name}/{compute.name}": node_hourly(environment, queue, compute)
        for queue in environment.cluster.queues
        for compute in queue.compute
    }

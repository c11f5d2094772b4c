"""Budgets of teams and idle interactive jobs, which the head node checks with Slurm's accounting."""

from __future__ import annotations

from collections.abc import Iterator

from settings.model import Environment
from settings.prices import node_prices
from settings.rules.items import Finding


def budgets(environment: Environment) -> Iterator[Finding]:
    """A team's budget needs a topic for its alerts, and the price of every node."""
    unknown = sorted(name for name, price in node_prices(environment).items() if price is None)
    for index, team in enumerate(environment.teams):
        if team.monthly_usd is None:
            continue
        key = ("teams", index, "monthly_usd")
        if environment.observability.mode == "off":
            advice = "set observability, whose topic gets the alerts"
            yield Finding(key, "a budget, with observability off", "observability with a mode", advice)
        if unknown:
            given = f"a budget, but no price is known for {', '.join(unknown)}"
            yield Finding(key, given, "a price for each instance type", "give cost.prices in USD an hour")


def idle(environment: Environment) -> Iterator[Finding]:
    """The nodes report their GPUs in a shared folder."""
    storage = environment.storage
    for index, qos in enumerate(environment.qos):
        if qos.idle_gpu_minutes and not (storage.lustre or storage.openzfs or storage.existing):
            given, allowed = f"{qos.idle_gpu_minutes}, without a shared file system", "a file system in storage"
            yield Finding(("qos", index, "idle_gpu_minutes"), given, allowed, "nodes report their GPUs there")


RULES = (budgets, idle)

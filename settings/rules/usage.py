"""Budgets of teams and idle interactive jobs, which the head node checks with Slurm's accounting."""

from __future__ import annotations

from collections.abc import Iterator

from settings.model import Environment
from settings.prices import node_prices
from settings.rules.items import Finding, mounts


def budgets(environment: Environment) -> Iterator[Finding]:
    """A team's budget needs receivers of its alerts, and the price of every node."""
    unknown = sorted(name for name, price in node_prices(environment).items() if price is None)
    for index, team in enumerate(environment.teams):
        if team.monthly_usd is None:
            continue
        key = ("teams", index, "monthly_usd")
        if not environment.observability.notifies:
            allowed, advice = "receivers in observability.notify", "set observability.mode and observability.notify"
            yield Finding(key, "a budget whose alerts nobody receives", allowed, advice)
        if unknown:
            given = f"a budget, but no price is known for {', '.join(unknown)}"
            yield Finding(key, given, "a price for each instance type", "give cost.prices in USD an hour")


def idle(environment: Environment) -> Iterator[Finding]:
    """The nodes report their GPUs in a shared folder."""
    shared = any(mount != "/home" for _, mount in mounts(environment))
    for index, qos in enumerate(environment.qos):
        if qos.idle_gpu_minutes and not shared:
            given = f"{qos.idle_gpu_minutes}, without a shared file system"
            allowed = "a file system in storage, other than /home"
            advice = "add one, where nodes report their GPU use, or remove the key"
            yield Finding(("qos", index, "idle_gpu_minutes"), given, allowed, advice)


RULES = (budgets, idle)

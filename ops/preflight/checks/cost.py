"""What the environment costs, by the price table, and whether its budget is enough for a month without jobs."""

from __future__ import annotations

from collections.abc import Iterator

from ops.cost.estimate import Category, dollars, estimate
from ops.cost.prices import Prices
from ops.preflight.context import CheckContext
from ops.preflight.results import CheckResult, Verdict, note
from settings.prices import regions

_TABLE = "settings/data/prices.json"


def check(context: CheckContext) -> Iterator[CheckResult]:
    """Sums, categories, sources of prices, what has no known price; a warning if idling alone exceeds the budget."""
    environment = context.environment
    found = estimate(context.stacks, Prices.of(environment))
    yield note("all", found.summary, "to be known before money is spent")
    for category in Category:
        items = [item for item in found.items if item.category is category]
        if known := [f"{item.full:g} x {item.what} {dollars(item.price)}" for item in items if item.price is not None]:
            yield note(str(category), "; ".join(known), "a month each" if items[0].is_storage else "an hour each")
    source = regions().get(environment.region, {}).get("sources", {}).get("instance_hour", "none")
    yield note("source", f"instances in {environment.region}: {source}", f"all others: {_TABLE}")
    if found.unknown:
        advice = "give what you pay for instances in cost.prices, or refresh the table: scripts/refresh_prices.py"
        yield note("unknown", "; ".join(found.unknown), "a price", advice)
    if budget := environment.cost.budget:
        enough = found.idle_month <= budget.monthly_usd
        yield CheckResult(
            "cost.budget.monthly_usd",
            f"{_TABLE} and cost.prices",
            f"{dollars(found.idle_month)} for a month without jobs",
            f"at most {dollars(budget.monthly_usd)}",
            Verdict.OK if enough else Verdict.WARNING,
            "" if enough else "raise the budget, or expect its alerts before any job runs",
        )

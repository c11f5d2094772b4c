"""Prices and budget: prices of instance types that are used, addresses once, a budget in USD."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from settings.model import Environment
from settings.regions import partition
from settings.rules.items import Finding, listed, type_uses


def prices(environment: Environment) -> Iterator[Finding]:
    """Each price is of an instance type that the environment uses: a misspelt one would count for nothing."""
    used = sorted({use.name for _, use in type_uses(environment)})
    for name in environment.cost.prices:
        if name not in used:
            allowed = f"an instance type that the file uses: {', '.join(used)}"
            yield Finding(("cost", "prices", name), name, allowed, "correct the name, or remove the price")


def emails(environment: Environment) -> Iterator[Finding]:
    """AWS Budgets refuses a subscriber that is named twice (DuplicateRecordException)."""
    if budget := environment.cost.budget:
        counts = Counter(address.lower() for address in budget.emails)
        for key, address in listed(("cost", "budget", "emails"), budget.emails):
            if counts[address.lower()] > 1:
                counts[address.lower()] -= 1
                yield Finding(key, address, "each once", "remove it here")


def billing(environment: Environment) -> Iterator[Finding]:
    """A budget is in USD, in the partition aws.

    China is billed in CNY (Getting Started with AWS in China, Billing and Payment); billing information of AWS GovCloud
    (US) is in the linked standard account only (AWS GovCloud user guide, Billing and Payment).
    """
    if environment.cost.budget and partition(environment.region) != "aws":
        allowed = "no budget: China is billed in CNY, and AWS GovCloud (US) in its linked standard account"
        advice = "remove cost.budget, and make a budget in the account that is billed"
        yield Finding(("cost", "budget"), f"a budget in USD, in {environment.region}", allowed, advice)


def receivers(environment: Environment) -> Iterator[Finding]:
    """Somebody receives the alerts."""
    budget = environment.cost.budget
    if budget and not budget.emails and not environment.observability.notifies:
        allowed = "one or more addresses, or receivers in observability.notify"
        yield Finding(("cost", "budget"), "a budget whose alerts nobody receives", allowed, "add emails")


RULES = (prices, emails, billing, receivers)

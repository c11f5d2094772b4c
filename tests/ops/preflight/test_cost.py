"""The preflight's note on the price, and its warning where idling alone uses the budget up."""

from __future__ import annotations

import pytest

from ops.preflight.checks import cost
from ops.preflight.results import CheckResult, Verdict
from settings import Environment, load
from settings.model.cost import Budget, Cost
from tests.ops.cost.test_estimate import ROOT, golden
from tests.ops.preflight.account import Account, context

FILE = ROOT / "environments" / "local.yaml"


def results(budget: int | None = None) -> list[CheckResult]:
    given = Cost(budget=Budget(monthly_usd=budget)) if budget else Cost()
    environment: Environment = load(FILE).model_copy(update={"cost": given})
    given_context = context(Account(), environment)
    given_context.__dict__["stacks"] = golden("local", "us-east-1")
    return list(cost.check(given_context))


def test_sums_categories_and_what_is_unknown() -> None:
    found = {item.subject: item for item in results()}
    assert found["all"].found.startswith("$0.5")
    assert "an hour at full size" in found["all"].found
    assert "2 x compute node p5.48xlarge $55.04" in found["compute"].found
    assert "Lustre PERSISTENT_2 1200 GiB" in found["storage"].found
    assert found["storage"].wanted == "a month each"
    assert "AWS Price List API for us-east-1, 2026-07-20" in found["source"].found
    assert "OpenZFS SINGLE_AZ_HA_2" in found["unknown"].found
    assert "cost.prices" in found["unknown"].todo
    assert {item.verdict for item in found.values()} == {Verdict.NOTE}


@pytest.mark.parametrize(("usd", "verdict"), [(100, Verdict.WARNING), (100_000, Verdict.OK)])
def test_a_budget_below_a_month_without_jobs_is_a_warning(usd: int, verdict: Verdict) -> None:
    [budget] = [item for item in results(usd) if item.subject == "cost.budget.monthly_usd"]
    assert budget.verdict is verdict
    assert budget.wanted == f"at most ${usd:,.2f}"
    assert bool(budget.todo) is (verdict is Verdict.WARNING)

"""What a change costs: the sentence, the rows, both signs, and prices that are unknown."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from ops.cost.change import Change, cells, change
from ops.cost.estimate import Estimate, estimate
from ops.cost.prices import Prices
from ops.report import html, json_text, markdown
from ops.report.commands import review_report
from ops.report.rendering import report_console, text
from ops.review.cluster import Cluster, Outcome
from ops.review.stacks import Stack
from ops.review.verdict import Verdict
from settings import load
from tests.ops.cost.test_estimate import ROOT, golden

LOCAL = golden("local", "us-east-1")


def edited(**nodes: int) -> dict[str, Stack]:
    """The environment local with other numbers of P5 nodes, Lustre capacity, and so on."""
    made = deepcopy(LOCAL)
    for stack in made.values():
        for resource in stack.resources.values():
            properties: Any = resource.get("Properties", {})
            if resource["Type"] == "Custom::ParallelCluster" and "p5" in nodes:
                properties["Configuration"]["Scheduling"]["SlurmQueues"][0]["ComputeResources"][0]["MaxCount"] = nodes[
                    "p5"
                ]
            if resource["Type"] == "AWS::FSx::FileSystem" and "lustre" in nodes and "LustreConfiguration" in properties:
                properties["StorageCapacity"] = nodes["lustre"]
            if resource["Type"] == "AWS::FSx::FileSystem" and "zfs" in nodes and "OpenZFSConfiguration" in properties:
                properties["StorageCapacity"] = nodes["zfs"]
    return made


def of(old: dict[str, Stack], new: dict[str, Stack]) -> Change:
    prices = Prices("us-east-1")
    return Change(estimate(old, prices), estimate(new, prices))


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ({}, {}, "No known cost changes"),
        ({"p5": 2}, {"p5": 3}, "This change costs $55.05 more per hour at full size"),
        ({"p5": 3}, {"p5": 2}, "This change costs $55.05 less per hour at full size"),
        ({"lustre": 1200}, {"lustre": 2400}, "This change costs $174.00 more per month for storage"),
        ({"zfs": 64}, {"zfs": 128}, "No known cost changes; 2 of the changes have no known price"),
    ],
)
def test_the_sentence(old: dict[str, int], new: dict[str, int], sentence: str) -> None:
    assert of(edited(**old), edited(**new)).sentence() == sentence


def test_a_first_deployment_costs_all_of_it() -> None:
    found = of({}, LOCAL)
    whole = estimate(LOCAL, Prices("us-east-1"))
    assert f"${whole.idle:,.2f} more per hour idle, ${whole.full:,.2f} more per hour at full size" in found.sentence()
    assert len(found.rows) == len(whole.items)
    assert of(LOCAL, {}).sentence().startswith(f"This change costs ${whole.idle:,.2f} less per hour idle")


def test_rows_are_what_differs_with_the_difference() -> None:
    found = of(edited(p5=2), edited(p5=4, lustre=2400))
    rows = [cells(row) for row in found.rows]
    assert ("compute node p5.48xlarge", "2 -> 4", "", "+$110.08 an hour") in rows
    assert ("Lustre PERSISTENT_2 1200 GiB, 125 MB/s per TiB", "1 -> 0", "", "-$174.00 a month") in rows
    assert ("Lustre PERSISTENT_2 2400 GiB, 125 MB/s per TiB", "0 -> 1", "", "+$348.00 a month") in rows
    assert not any("head node" in row[0] for row in rows)


def test_the_users_prices_count_on_both_sides() -> None:
    environment = load(ROOT / "environments" / "local.yaml")
    own = environment.model_copy(update={"cost": environment.cost.model_copy(update={"prices": {"p5.48xlarge": 30.0}})})
    found = change(own, edited(p5=2), edited(p5=3))
    assert "costs $30.01 more per hour at full size" in found.sentence()


def test_every_format_of_the_report_has_the_cost(capsys: pytest.CaptureFixture[str]) -> None:
    import sys

    found = of(edited(p5=2), edited(p5=3, zfs=128))
    verdict = Verdict("local", "before", Cluster("local", Outcome.UPDATED), (), (), (), cost=found)
    report = review_report(verdict)
    text(report, report_console(sys.stdout))
    shown = {"text": capsys.readouterr().out, "markdown": markdown(report), "html": html(report)}
    for form, content in shown.items():
        assert "$55.05 more per hour at full size" in content, form
        assert "compute node p5.48xlarge" in content, form
        assert "unknown" in content, form
    assert '"full_usd_per_hour": 55.05' in json_text(report)


def test_without_a_difference_there_is_no_section() -> None:
    verdict = Verdict(
        "local", "before", Cluster("local", Outcome.UPDATED), (), (), (), cost=Change(Estimate(), Estimate())
    )
    assert "Cost of" not in markdown(review_report(verdict))

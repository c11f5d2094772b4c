"""The promotion, dev to prod, on the local default: every gate is met, and what it stops stays untouched.

The steps build on each other, as a promotion does: each is one call of the walker, made once for all tests.
"""

from __future__ import annotations

import json

import pytest

from local.emulator import launch
from local.pipeline.ground import expected
from local.steering import Steer
from tests.promotion.conftest import DEV, PROD, REGION, SKIPPED, Promotion

pytestmark = pytest.mark.e2e

RESERVATION = "cr-0123456789abcdef1"
FIRST = ("--approve", "dev/Approve-Permissions", "--approve", "staging/Approve-Permissions")
"""A first deployment makes roles, which is a change of permissions."""


@pytest.fixture(scope="session")
def promoted(promotion: Promotion, tmp_path_factory: pytest.TempPathFactory) -> Promotion:
    """From nothing to prod: stopped at prod's preflight, by a person, by its validation, then through."""
    seeds = tmp_path_factory.mktemp("seeds") / "none.json"
    there = expected(promotion.checkout)
    reserved = there[PROD].pop("capacity_reservations")
    assert [item["id"] for item in reserved] == [RESERVATION]
    seeds.write_text(json.dumps(there))
    promotion.step("no reservation", 1, "walk", "--port", str(promotion.port), "--seeds", str(seeds), *FIRST)
    world = launch.find(promotion.state)
    assert world is not None
    steer = Steer(world)
    steer.seeds_in(PROD, REGION, {"capacity_reservations": reserved})
    promotion.step("nobody asked", 3, "resume", "--approve", "prod/Approve-Permissions")
    promotion.approve("prod", "Approve")
    steer.agent("prod", answers=False)
    promotion.step("not validated", 1, "resume")
    steer.agent("prod", answers=True)
    promotion.step("approved", 0, "resume")
    return promotion


@pytest.fixture(scope="session")
def disrupted(promoted: Promotion) -> Promotion:
    """A change of dev and staging that drains their nodes, on what was promoted before."""
    for name in ("dev", "staging"):
        # Without the first, ParallelCluster refuses the second while the fleet runs.
        promoted.edit(f"environments/{name}.yaml", r"(?m)^cluster:$", "cluster:\n  updates: {stop_fleet: when-needed}")
        promoted.edit(f"environments/{name}.yaml", r"scaledown_minutes: \d+", "scaledown_minutes: 25")
    promoted.step("disruptive", 3, "walk")
    promoted.step("disruption approved", 3, "resume", "--approve", "dev/Approve-Disruption")
    return promoted


def test_failing_gate_stops_before_prod(promoted: Promotion) -> None:
    """Prod's reservation is missing: dev and staging are deployed, prod is not."""
    step = promoted.steps["no reservation"]
    for stage in ("dev", "staging"):
        assert step.outcomes[f"{stage}/Preflight"] == "succeeded"
        assert step.outcomes[f"{stage}/cluster.Deploy"] == "succeeded"
        assert step.outcomes[f"{stage}/Validation"] == "succeeded"
    assert step.outcomes["prod/Preflight"] == "failed"
    later = {key for key, outcome in step.outcomes.items() if key.startswith("prod/") and outcome == "not started"}
    assert later >= {"prod/Approve", "prod/network.Prepare", "prod/network.Deploy", "prod/cluster.Deploy"}
    assert step.prod == {"prod-promotion"}
    report = promoted.artifact("approved", "prod/Preflight") / "preflight.md"
    assert RESERVATION in report.read_text()


def test_nothing_is_left_out_silently(promoted: Promotion) -> None:
    step = promoted.steps["no reservation"]
    assert step.record["entries"]["Build/Synth"]["skipped"] == list(SKIPPED)
    assert all(f"--skip {command!r}: left out" in step.said for command in SKIPPED)
    assert not [key for key, entry in step.record["entries"].items() if entry["skipped"] and key != "Build/Synth"]


def test_a_person_approves_prod(promoted: Promotion) -> None:
    """The walk waits with the verdict in its words, prod untouched; an answer by the API lets it go on."""
    step = promoted.steps["nobody asked"]
    assert step.outcomes["prod/Preflight"] == "succeeded"
    assert step.outcomes["prod/Approve-Disruption"] == "succeeded", "a safe verdict needs nobody"
    assert step.outcomes["prod/Approve"] == "waiting"
    assert "SAFE" in step.record["entries"]["prod/Approve"]["note"]
    assert step.prod == {"prod-promotion"}


def test_failing_validation_fails_the_walk(promoted: Promotion) -> None:
    """Nobody answers on prod's head node: what is deployed stands, and is not called validated."""
    outcomes = promoted.steps["not validated"].outcomes
    assert outcomes["prod/cluster.Deploy"] == "succeeded"
    assert [key for key, outcome in outcomes.items() if outcome != "succeeded"] == ["prod/Validation"]
    assert outcomes["prod/Validation"] == "failed"


def test_prod_is_deployed(promoted: Promotion) -> None:
    step = promoted.steps["approved"]
    assert set(step.outcomes.values()) == {"succeeded"}
    assert {f"prod-{name}" for name in ("network", "storage", "data-links", "images", "api", "cluster")} <= step.prod
    cluster = promoted.cluster(PROD, "prod")
    assert cluster["StackStatus"] == "CREATE_COMPLETE"


def test_reports_are_artifacts(promoted: Promotion) -> None:
    """Of every gate of every stage, for who looks later."""
    for stage in ("dev", "staging", "prod"):
        for action, report in (
            ("Preflight", "preflight.md"),
            ("Diff", "verdict.md"),
            ("Validation", "validation.md"),
        ):
            text = (promoted.artifact("approved", f"{stage}/{action}") / report).read_text()
            assert f"`{stage}`" in text or stage in text
    verdict = (promoted.artifact("approved", "prod/Diff") / "verdict.md").read_text()
    assert "SAFE" in verdict


def test_disruption_waits_for_its_own_approval(disrupted: Promotion) -> None:
    step = disrupted.steps["disruptive"]
    assert step.outcomes["dev/Approve-Disruption"] == "waiting"
    assert step.outcomes["dev/Approve-Permissions"] == "succeeded", "no permission changes"
    assert "DISRUPTIVE" in step.record["entries"]["dev/Approve-Disruption"]["note"]
    assert step.outcomes["dev/cluster.Prepare"] == "not started"


def test_disruption_goes_on_after_its_approval(disrupted: Promotion) -> None:
    """Dev is updated and validated; staging asks again, for itself."""
    step = disrupted.steps["disruption approved"]
    assert step.outcomes["dev/cluster.Deploy"] == "succeeded"
    assert disrupted.cluster(DEV, "dev")["StackStatus"] == "UPDATE_COMPLETE"
    assert step.outcomes["dev/Validation"] == "succeeded"
    assert [key for key, outcome in step.outcomes.items() if outcome == "waiting"] == ["staging/Approve-Disruption"]
    assert step.outcomes["prod/Diff"] == "not started"

"""What a review says of changed teams, qualities of service and reservations."""

from __future__ import annotations

from typing import Any

import pytest

from ops.report import markdown
from ops.report.commands import review_report
from ops.review.stacks import Stack
from ops.review.verdict import Level, Verdict, judge
from settings.shares import METADATA

TEAM: dict[str, Any] = {"name": "nlp", "share": 2, "max_gpus": 16, "qos": []}
URGENT: dict[str, Any] = {"name": "urgent", "priority": 100, "preempts": ["normal"]}


def side(**shares: object) -> dict[str, Stack]:
    metadata = {"Metadata": {METADATA: shares}} if shares else {}
    return {"cluster": Stack("cluster", "dev-cluster", "us-east-1", {"Resources": {}, **metadata})}


def verdict_of(old: dict[str, Stack], new: dict[str, Stack]) -> Verdict:
    return judge("dev", "before", old, new)


def test_equal_shares_are_nothing() -> None:
    assert verdict_of(side(teams=[TEAM]), side(teams=[TEAM])).level is Level.NOTHING
    assert verdict_of(side(), side()).level is Level.NOTHING


def test_shares_of_a_new_environment_are_no_change() -> None:
    assert verdict_of({}, side(teams=[TEAM])).shares == ()


@pytest.mark.parametrize(
    ("old", "new", "level", "subject", "text"),
    [
        ([TEAM], [TEAM | {"share": 3}], Level.SAFE, "team nlp", "share: 2 -> 3"),
        ([TEAM], [TEAM | {"max_gpus": 24}], Level.SAFE, "team nlp", "max_gpus: 16 -> 24"),
        ([TEAM], [TEAM | {"max_gpus": None}], Level.SAFE, "team nlp", "max_gpus: 16 -> none"),
        ([TEAM], [TEAM | {"max_gpus": 8}], Level.DISRUPTIVE, "team nlp", "max_gpus: 16 -> 8"),
        ([TEAM], [{"name": "nlp", "share": 2, "qos": []}], Level.SAFE, "team nlp", "max_gpus: 16 -> none"),
        ([TEAM], [], Level.DISRUPTIVE, "team nlp", "removed"),
        ([], [TEAM], Level.SAFE, "team nlp", "added: share 2, max_gpus 16"),
    ],
)
def test_teams(old: list[object], new: list[object], level: Level, subject: str, text: str) -> None:
    verdict = verdict_of(side(teams=old, qos=[URGENT]), side(teams=new, qos=[URGENT]))
    [change] = verdict.shares
    assert (verdict.level, change.subject, change.text) == (level, subject, text)


def test_a_qos_that_preempts_another_one_is_disruptive() -> None:
    verdict = verdict_of(side(qos=[URGENT | {"preempts": []}]), side(qos=[URGENT | {"priority": 50}]))
    assert [(reason.level.name, reason.text) for reason in verdict.reasons] == [
        (
            "DISRUPTIVE",
            "QOS urgent preempts: none -> normal: running jobs of normal can be requeued for it",
        ),
        ("SAFE", "1 change of shares, without an update of the cluster"),
    ]


def test_the_report_lists_the_changes() -> None:
    models = [{"name": "model1", "team": "nlp"}]
    verdict = verdict_of(side(teams=[TEAM], models=models), side(teams=[TEAM], models=[]))
    text = markdown(review_report(verdict))
    assert "model model1" in text
    assert "its jobs count for their user's default team" in text

"""Differences of shares, as the head node finds them."""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from ops.drift import shares
from ops.drift.deployed_stack import DeployedStack, Resource
from ops.drift.findings import Finding
from ops.problem import Problem
from ops.validation import head_node

CHANGES = [
    "account nlp: Fairshare is '9', not '2'",
    "user ada in nlp: it is 'missing', not 'exists'",
    "qos urgent: Preempt is '', not 'normal'",
    "something else",
]


def test_changes_become_findings() -> None:
    found = [(one.subject, one.path, one.expected, one.actual) for one in shares.findings({"changes": CHANGES})]
    assert found == [
        ("account nlp", "Fairshare", "2", "9"),
        ("user ada in nlp", "", "exists", "missing"),
        ("qos urgent", "Preempt", "normal", ""),
        ("something else", "", "as in the environment file", "different"),
    ]


class Node:
    """In place of the head node: records requests."""

    asked: list[tuple[object, ...]]
    problems: tuple[str, ...] = ()

    def __init__(self, _ssm: object, instance: str, document: str, _of: str) -> None:
        self.of = instance, document

    def ask(self, *words: str) -> dict[str, Any]:
        Node.asked.append((*self.of, *words))
        return {"users": {"changes": ["x"]}, "shares": {"changes": CHANGES[:1], "problems": Node.problems}}


@pytest.mark.parametrize("logical_id", ["PeopleDocument0A", "ChecksDocument0A"])
def test_the_head_node_is_asked_by_the_people_document_only(logical_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Node.asked = []
    monkeypatch.setattr(head_node, "HeadNode", Node)
    monkeypatch.setattr(head_node, "find", lambda _, cluster: f"i-{cluster}")
    document = Resource(logical_id, "AWS::SSM::Document", "demo-people")
    stack = DeployedStack("demo-cluster", "arn", "UPDATE_COMPLETE", {logical_id: document}, {}, {}, {}, {}, {})
    session = boto3.Session(region_name="us-east-1")
    found = list(shares.check(session, stack, "demo"))
    if logical_id.startswith("Checks"):
        assert (found, Node.asked) == ([], [])
        return
    assert Node.asked == [("i-demo", "demo-people", "plan")]
    assert found == [Finding("shares", "account nlp", "Fairshare", "2", "9", shares.ADVICE)]
    monkeypatch.setattr(Node, "problems", ("sacctmgr show qos: Connection refused",))
    with pytest.raises(Problem, match="Connection refused"):
        list(shares.check(session, stack, "demo"))

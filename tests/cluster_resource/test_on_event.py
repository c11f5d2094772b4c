"""Which events are started: once, in order, and answered at once if that is impossible."""

import json
from typing import Any

import pytest

from cluster_resource.on_event import name_of, signed_at
from cluster_resource.request import Request
from tests.cluster_resource import events
from tests.cluster_resource.events import StepFunctions
from tests.stubs import Server

DIGEST = Request.of(events.create()).digest


def signed(second: int, request: str = "one") -> dict[str, Any]:
    """An event whose ResponseURL was signed in that second."""
    url = f"https://answers.example/x?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Date=20261121T0800{second:02}Z&X-Amz-Expires=7200"
    return {**events.create(), "RequestId": request, "ResponseURL": url}


def name(event: dict[str, Any]) -> str:
    return name_of(Request.of(event))


def test_an_execution_is_named_after_owner_time_and_request() -> None:
    assert name(signed(5)) == f"{DIGEST}-1795248005-one"


@pytest.mark.parametrize(
    ("query", "second"),
    [("Expires=1795248000&Signature=x", 1795248000), ("X-Amz-Date=never", 0), ("Expires=soon", 0), ("", 0)],
)
def test_the_time_is_read_from_either_form_of_url(query: str, second: int) -> None:
    assert signed_at(Request.of({**events.create(), "ResponseURL": f"https://answers.example/x?{query}"})) == second


@pytest.mark.parametrize(
    ("event", "known", "started", "stopped"),
    [
        (signed(1), {}, True, []),
        (signed(1), {"of-another-resource": "RUNNING"}, True, []),
        (signed(1), {name(signed(1)): "RUNNING"}, False, []),
        (
            signed(2, "new"),
            {name(signed(1, "old")): "RUNNING", name(signed(0, "ended")): "SUCCEEDED"},
            True,
            [f"arn:{name(signed(1, 'old'))}"],
        ),
        # Without a time in the URL, the last to arrive is the newest.
        ({**events.create(), "RequestId": "new"}, {f"{DIGEST}-0-old": "RUNNING"}, True, [f"arn:{DIGEST}-0-old"]),
        (signed(1), {f"{DIGEST}-by-hand": "RUNNING"}, True, [f"arn:{DIGEST}-by-hand"]),
    ],
    ids=["first", "other resource", "delivered twice", "newer", "no time", "started by hand"],
)
def test_an_event_is_started_once_and_stops_older_executions(
    event: dict[str, Any], known: dict[str, str], started: bool, stopped: list[str]
) -> None:
    client = StepFunctions(known=known)
    client.receive(event, send=pytest.fail)
    assert [item["name"] for item in client.started] == ([name(event)] if started else [])
    assert client.stopped == stopped
    assert all(json.loads(item["input"]) == event for item in client.started)


@pytest.mark.parametrize("status", ["RUNNING", "SUCCEEDED"])
def test_an_event_that_comes_after_a_newer_one_is_not_carried_out(status: str) -> None:
    answers: list[Any] = []
    client = StepFunctions(known={name(signed(9, "newer")): status})
    client.receive(signed(1, "late"), send=lambda _event, verdict: answers.append(verdict))
    assert client.started == [] and client.stopped == []
    assert answers[0].status == "FAILED" and "took its place" in answers[0].reason


def test_an_execution_that_exists_already_is_not_a_failure() -> None:
    StepFunctions("ExecutionAlreadyExists").receive(events.create(), send=pytest.fail)


@pytest.mark.parametrize(
    ("event", "physical_id"), [(events.create(), "not-created/local"), (events.delete(), events.own_id("local"))]
)
def test_an_execution_that_cannot_be_started_is_answered_at_once(
    event: dict[str, Any], physical_id: str, receiver: Server
) -> None:
    StepFunctions("AccessDeniedException").receive({**event, "ResponseURL": receiver.url})
    body = receiver.bodies[0]
    assert (body["Status"], body["PhysicalResourceId"]) == ("FAILED", physical_id)
    assert "AccessDeniedException" in body["Reason"]

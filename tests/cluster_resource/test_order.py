"""Events that come twice, late, or while an older one is still being worked on."""

from typing import Any

import pytest

from cluster_resource import on_event
from cluster_resource.on_event import Known, name_of, order_of, signed_at
from cluster_resource.request import Request
from tests.cluster_resource import events

DIGEST = Request.of(events.create()).digest


def signed(second: int, request: str = "one") -> dict[str, Any]:
    """An event whose ResponseURL was signed in that second."""
    url = f"https://answers.example/x?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Date=20261121T0800{second:02}Z&X-Amz-Expires=7200"
    return {**events.create(), "RequestId": request, "ResponseURL": url}


def known(event: dict[str, Any], *, running: bool = True) -> Known:
    return Known(name_of(Request.of(event)), f"arn:{event['RequestId']}", running)


class Executions:
    def __init__(self, *given: Known) -> None:
        self.given = list(given)
        self.started: list[str] = []
        self.stopped: list[str] = []

    def known(self) -> list[Known]:
        return self.given

    def start(self, name: str, _event: dict[str, Any]) -> None:
        self.started.append(name)

    def stop(self, arn: str, _why: str) -> None:
        self.stopped.append(arn)


def test_an_execution_is_named_after_owner_time_and_request() -> None:
    assert name_of(Request.of(signed(5))) == f"{DIGEST}-1795248005-one"


@pytest.mark.parametrize(
    ("query", "second"),
    [("Expires=1795248000&Signature=x", 1795248000), ("X-Amz-Date=never", 0), ("Expires=soon", 0), ("", 0)],
)
def test_the_time_is_read_from_either_form_of_url(query: str, second: int) -> None:
    assert signed_at(Request.of({**events.create(), "ResponseURL": f"https://answers.example/x?{query}"})) == second


def test_the_first_event_of_a_resource_is_started() -> None:
    executions = Executions(Known("of-another-resource", "arn:x", True))
    on_event.receive(signed(1), executions, send=pytest.fail)
    assert (executions.started, executions.stopped) == ([name_of(Request.of(signed(1)))], [])


def test_an_event_that_comes_twice_is_neither_started_nor_answered() -> None:
    executions = Executions(known(signed(1)))
    on_event.receive(signed(1), executions, send=pytest.fail)
    assert executions.started == [] and executions.stopped == []


def test_a_newer_event_stops_the_older_execution() -> None:
    executions = Executions(known(signed(1, "old")), known(signed(0, "ended"), running=False))
    on_event.receive(signed(2, "new"), executions, send=pytest.fail)
    assert executions.stopped == ["arn:old"]
    assert executions.started == [name_of(Request.of(signed(2, "new")))]


@pytest.mark.parametrize("running", [True, False])
def test_an_event_that_comes_after_a_newer_one_is_not_carried_out(running: bool) -> None:
    answers: list[Any] = []
    executions = Executions(known(signed(9, "newer"), running=running))
    on_event.receive(signed(1, "late"), executions, send=lambda _event, verdict: answers.append(verdict))
    assert executions.started == [] and executions.stopped == []
    assert answers[0].status == "FAILED" and "took its place" in answers[0].reason


def test_where_urls_tell_no_time_the_last_to_come_is_the_newest() -> None:
    old = {**events.create(), "RequestId": "old"}
    order = order_of(Request.of({**events.create(), "RequestId": "new"}), [known(old)])
    assert order.overtaken_by is None and [item.arn for item in order.outdated] == ["arn:old"]

"""The answer that reaches CloudFormation: its content, its size, its delivery."""

import json
import random
from typing import Any

import pytest
import urllib3

from cluster_resource import response
from cluster_resource.api import Change, ClusterView
from cluster_resource.failures import change_line, report
from cluster_resource.operation import Kind, Operation, Progress, Verdict
from cluster_resource.request import Request
from cluster_resource.response import body_of, send, with_reason
from tests.cluster_resource import events
from tests.cluster_resource.events import EXECUTION, STARTED, own_id
from tests.stubs import Server

LIMIT = 4096  # bytes, from CloudFormation's reference of custom resource response objects
VERDICT = Verdict("SUCCESS", "local/abc", "done", {"Status": "CREATE_COMPLETE"})
ANSWER = {
    "Status": "SUCCESS",
    "Reason": "done",
    "PhysicalResourceId": "local/abc",
    "StackId": events.STACK,
    "RequestId": "99999999-0000-0000-0000-000000000000",
    "LogicalResourceId": events.LOGICAL_ID,
    "Data": {"Status": "CREATE_COMPLETE"},
}


def answered_at(url: str) -> Request:
    return Request.of({**events.create(), "ResponseURL": url})


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The longest waits that the jitter allows."""

    def longest(low: float, high: float) -> float:
        assert (low, high) == (0.5, 1.0)
        return high

    monkeypatch.setattr(random, "uniform", longest)
    return []


def test_the_answer_has_what_cloudformation_asks_for(receiver: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "cluster_resource")
    send(answered_at(receiver.url), VERDICT)
    assert receiver.bodies == [ANSWER] and receiver.requests[0][3]["Content-Type"] == ""
    assert caplog.messages == ["CloudFormation was answered SUCCESS"]
    assert body_of(answered_at(""), VERDICT) == json.dumps(ANSWER, separators=(",", ":")).encode()


def test_an_answer_without_attributes_has_no_data(receiver: Server) -> None:
    send(answered_at(receiver.url), Verdict("FAILED", "local/abc", "broken"))
    without = {key: value for key, value in ANSWER.items() if key != "Data"}
    assert receiver.bodies == [{**without, "Status": "FAILED", "Reason": "broken"}]


def test_a_request_is_sent_once_with_timeouts_and_without_retries_of_the_library() -> None:
    sent: list[Any] = []

    class Pool(urllib3.PoolManager):
        def request(self, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401
            sent.append((arguments, options))
            return urllib3.HTTPResponse(status=200)

    send(answered_at("https://answers.example/x"), VERDICT, http=Pool())
    ((arguments, options),) = sent
    assert arguments == ("PUT", "https://answers.example/x")
    assert options.pop("timeout").read_timeout == 15.0
    assert options == {"body": body_of(answered_at(""), VERDICT), "headers": {"Content-Type": ""}, "retries": False}


def test_the_answer_is_repeated_until_it_is_taken(
    receiver: Server, waits: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    receiver.answers = [(500, {}), (300, {}), (299, {})]
    send(answered_at(receiver.url), VERDICT, sleep=waits.append)
    assert len(receiver.requests) == 3 and waits == [2, 4]
    assert caplog.messages[:2] == [
        "Answering CloudFormation failed (attempt 1 of 5): HTTP 500",
        "Answering CloudFormation failed (attempt 2 of 5): HTTP 300",
    ]


def test_an_answer_that_nobody_takes_is_an_error_without_the_signed_url(
    receiver: Server, waits: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    receiver.answers = [(403, {})]
    message = "^CloudFormation could not be answered after 5 attempts: "
    with pytest.raises(RuntimeError, match=f"{message}HTTP 403$") as refused:
        send(answered_at(receiver.url), VERDICT, sleep=waits.append)
    assert len(receiver.requests) == 5 and waits == [2, 4, 8, 16]
    with pytest.raises(RuntimeError, match=f"{message}NewConnectionError$") as lost:
        send(answered_at("http://127.0.0.1:1/answer?signature=secret"), VERDICT, sleep=waits.append)
    assert "secret" not in f"{refused.value}{lost.value}{caplog.text}"


def operation(kind: Kind, note: str = "") -> Operation:
    return Operation(events.create(), STARTED, kind, "local/abc", execution=EXECUTION, progress=Progress(note=note))


@pytest.mark.parametrize("line", ["The validator says no. " * 20, "\u00dc\U0001f600\n" * 60])
def test_a_long_report_fits_the_answer_and_keeps_what_to_do(line: str) -> None:
    request = Request.of(events.create())
    lines = [f"{n}: {line}" for n in range(100)]
    verdict = report(
        request, Verdict("FAILED", own_id("local"), ""), "It failed.", lines, "To do: this.", "Logs: there."
    )
    assert LIMIT - 700 < len(body_of(request, verdict)) <= LIMIT
    assert verdict.reason.startswith("It failed.\n0: ") and " more in the log)" in verdict.reason
    assert "To do: this.\nLogs: there.\nFull report: " in verdict.reason


def test_one_line_that_is_longer_than_the_answer_is_cut() -> None:
    request = Request.of(events.create())
    verdict = report(request, VERDICT, "x" * 5000, (), "To do: this.")
    assert len(body_of(request, verdict)) == LIMIT and "xx...\nTo do: this.\nFull report: " in verdict.reason


@pytest.mark.parametrize("verdict", [VERDICT, Verdict("FAILED", "local/a-longer-id", "not counted" * 9)])
def test_a_long_reason_fills_the_answer_to_the_last_byte(verdict: Verdict) -> None:
    request = Request.of(events.create())
    full = with_reason(request, verdict, "y" * 9000)
    assert len(body_of(request, full)) == LIMIT and full.reason.endswith("yyy...")
    assert (full.status, full.physical_id, full.data) == (verdict.status, verdict.physical_id, verdict.data)
    assert with_reason(request, verdict, "short").reason == "short"


def test_an_answer_is_cut_when_it_is_sent(receiver: Server) -> None:
    send(answered_at(receiver.url), Verdict("FAILED", "id", "y" * 9000))
    assert receiver.bodies[0]["Reason"].endswith("yyy...")


@pytest.mark.parametrize(
    ("room", "head", "tail", "cut"),
    [
        (10, "abcdefghij", "", "abcdefghij"),
        (10, "abcdefghijk", "", "abcdefg..."),
        (10, "abcdefghijk", "XYZ", "abcd...XYZ"),
        (7, "abcd", "wxyz", "...wxyz"),
        (8, "abcd", "wxyz", "abcdwxyz"),
        (12, "\u00fc\u00fc\u00fc", "", "\u00fc..."),
        (4, '""""', "", "..."),
    ],
)
def test_the_end_of_a_reasons_head_is_cut(
    room: int, head: str, tail: str, cut: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = Request.of(events.create())
    empty = Verdict("FAILED", "id", "")
    monkeypatch.setattr(response, "LIMIT", len(body_of(request, empty)) + room)
    assert with_reason(request, empty, head, tail).reason == cut


VIEW = ClusterView("local", "CREATE_COMPLETE", "CREATE_COMPLETE", "arn:stack", "3.16.1")
ATTRIBUTES = {
    "ClusterName": "local",
    "HeadNodeInstanceId": "none",
    "HeadNodePrivateIp": "none",
    "StackArn": "arn:stack",
    "Status": "CREATE_COMPLETE",
    "Version": "3.16.1",
    "Execution": EXECUTION,
}


def test_a_success_has_the_attributes_of_the_cluster(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "cluster_resource")
    assert response.success(operation("create"), VIEW, "done") == Verdict("SUCCESS", "local/abc", "done", ATTRIBUTES)
    assert caplog.messages == ["create succeeded: done"]
    assert response.success(operation("delete"), VIEW, "gone") == Verdict("SUCCESS", "local/abc", "gone", {})
    assert response.success(operation("update"), None, "gone") == Verdict("SUCCESS", "local/abc", "gone", {})
    assert response.attributes("local", "", VIEW)["Execution"] == "none"


@pytest.mark.parametrize(("note", "said"), [("", "it has begun"), ("the cluster is busy", "the cluster is busy")])
def test_an_early_answer_has_every_attribute_before_there_is_a_cluster(note: str, said: str) -> None:
    why = f"The operation on the cluster local goes on: {said}. Another resource waits for its end."
    data = {**dict.fromkeys(ATTRIBUTES, "none"), "ClusterName": "local", "Execution": EXECUTION}
    assert response.early(operation("create", note), "local") == Verdict("SUCCESS", "local/abc", why, data)
    assert response.attributes("local", "")["Execution"] == "none"


QUEUE = "{'Name': 'extra', 'CapacityType': 'ONDEMAND', 'ComputeResources': []}"


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (Change("Queues", QUEUE, "-", "no"), "Queues: extra is removed (can never change in place): no"),
        (Change("Queues", "-", QUEUE), "Queues: extra is added"),
        (Change("Image.Os", "alinux2023", "ubuntu2404"), "Image.Os: now alinux2023, asked for ubuntu2404"),
    ],
)
def test_a_change_is_shown_with_both_values_and_queues_by_name(change: Change, line: str) -> None:
    assert change_line(change) == line

"""The Lambda handlers, and what reaches CloudFormation."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cluster_resource import on_event, response, work
from cluster_resource.failures import Report
from cluster_resource.operation import Verdict, epoch_seconds
from cluster_resource.request import Request
from cluster_resource.response import Room, body_of, room_for_reason, send
from tests.cluster_resource import events
from tests.cluster_resource.events import STARTED, own_id, properties
from tests.cluster_resource.fake_api import FakeApi


class Receiver:
    """CloudFormation's end of the ResponseURL."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.received: list[tuple[str | None, dict[str, Any]]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.received.append((self.headers["Content-Type"], json.loads(body)))
                self.send_response(receiver.statuses.pop(0) if receiver.statuses else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/answer?signature=secret"
        Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


LIMIT = 4096  # bytes, from CloudFormation's reference of custom resource response objects
VERDICT = Verdict("SUCCESS", "local/abc", "done", {"Status": "CREATE_COMPLETE"})


def test_the_answer_has_what_cloudformation_asks_for(receiver: Receiver) -> None:
    send(Request.of({**events.create(), "ResponseURL": receiver.url}), VERDICT)
    content_type, body = receiver.received[0]
    assert content_type == ""
    assert body == {
        "Status": "SUCCESS",
        "Reason": "done",
        "PhysicalResourceId": "local/abc",
        "StackId": events.STACK,
        "RequestId": "99999999-0000-0000-0000-000000000000",
        "LogicalResourceId": events.LOGICAL_ID,
        "Data": {"Status": "CREATE_COMPLETE"},
    }


def test_the_answer_is_repeated_until_it_is_taken(receiver: Receiver) -> None:
    receiver.statuses = [500, 503]
    waits: list[float] = []
    send(Request.of({**events.create(), "ResponseURL": receiver.url}), VERDICT, sleep=waits.append)
    assert len(receiver.received) == 3
    assert len(waits) == 2


def test_an_answer_that_nobody_takes_is_an_error_without_the_signed_url(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.statuses = [403] * 9
    with pytest.raises(RuntimeError, match="HTTP 403") as refused:
        send(Request.of({**events.create(), "ResponseURL": receiver.url}), VERDICT, sleep=lambda _: None)
    unreachable = Request.of({**events.create(), "ResponseURL": "http://127.0.0.1:1/answer?signature=secret"})
    with pytest.raises(RuntimeError) as lost:
        send(unreachable, VERDICT, sleep=lambda _: None)
    assert "secret" not in f"{refused.value}{lost.value}{caplog.text}"


@pytest.mark.parametrize("line", ["The validator says no. " * 20, "Ü\U0001f600\n" * 60])
def test_a_long_report_fits_the_answer_and_keeps_what_to_do(line: str) -> None:
    event = Request.of(events.create())
    verdict = Verdict("FAILED", own_id("local"), "")
    report = Report("It failed.", "To do: this.", tuple(f"{n}: {line}" for n in range(100)), "Logs: there.")
    reason = report.text(room_for_reason(event, verdict))
    assert LIMIT - 700 < len(body_of(event, Verdict("FAILED", own_id("local"), reason))) <= LIMIT
    assert reason.startswith("It failed.\n0: ") and " more in the log)" in reason
    assert "To do: this.\nLogs: there.\nFull report: " in reason


def test_one_line_that_is_longer_than_the_answer_is_cut() -> None:
    room = Room(500)
    reason = Report("x" * 5000, "To do: this.").text(room)
    assert room.fits(reason) and "To do: this." in reason


def test_a_reason_in_nobodys_room_is_still_sent(receiver: Receiver) -> None:
    send(Request.of({**events.create(), "ResponseURL": receiver.url}), Verdict("FAILED", "id", "y" * 9000))
    assert len(json.dumps(receiver.received[0][1], separators=(",", ":"))) <= LIMIT


class Executions:
    """Step Functions; `known` are names and statuses of executions."""

    def __init__(self, error: Exception | None = None, **known: str) -> None:
        self.started: list[dict[str, Any]] = []
        self.stopped: list[str] = []
        self.known = {name.replace("_", "-"): status for name, status in known.items()}
        self.error = error

    def list_executions(self, **request: Any) -> dict[str, Any]:  # noqa: ANN401
        assert request["stateMachineArn"] == "arn:machine"
        return {
            "executions": [
                {"name": name, "executionArn": f"arn:{name}", "status": status} for name, status in self.known.items()
            ]
        }

    def stop_execution(self, **request: Any) -> None:  # noqa: ANN401
        self.stopped.append(request["executionArn"])

    def start_execution(self, **request: Any) -> None:  # noqa: ANN401
        self.started.append(request)
        if self.error:
            raise self.error


DIGEST = Request.of(events.create()).digest


def refused(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "StartExecution")


def test_an_event_starts_one_execution_named_after_its_request() -> None:
    client = Executions()
    on_event.receive(events.create(), on_event.StepFunctions(client, "arn:machine"), send=pytest.fail)
    assert client.started[0]["name"] == f"{DIGEST}-0-99999999-0000-0000-0000-000000000000"
    assert json.loads(client.started[0]["input"]) == events.create()


def test_an_event_delivered_twice_is_one_execution_and_no_failure() -> None:
    client = Executions(refused("ExecutionAlreadyExists"))
    on_event.receive(events.create(), on_event.StepFunctions(client, "arn:machine"), send=pytest.fail)


@pytest.mark.parametrize(
    ("event", "physical_id"), [(events.create(), "not-created/local"), (events.delete(), own_id("local"))]
)
def test_work_that_cannot_be_started_is_answered_at_once(
    event: dict[str, Any], physical_id: str, receiver: Receiver
) -> None:
    client = Executions(refused("AccessDeniedException"))
    on_event.receive({**event, "ResponseURL": receiver.url}, on_event.StepFunctions(client, "arn:machine"))
    body = receiver.received[0][1]
    assert (body["Status"], body["PhysicalResourceId"]) == ("FAILED", physical_id)
    assert "AccessDeniedException" in body["Reason"]


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    api = FakeApi()
    monkeypatch.setattr(work, "_api_for", lambda _: api)
    monkeypatch.setattr("time.time", lambda: float(epoch_seconds(STARTED)))
    return api


@pytest.mark.usefixtures("api")
def test_the_steps_lead_from_event_to_answer(receiver: Receiver) -> None:
    event = {**events.create(), "ResponseURL": receiver.url}
    item = work.handler({"step": "begin", "work": {"event": event, "started": STARTED}}, None)
    assert item["state"] == "waiting" and item["verdict"] is None and item["event"] == event
    while item["state"] == "waiting":
        item = work.handler({"step": "poll", "work": item}, None)
    answer = work.handler({"step": "answer", "work": item}, None)
    assert answer["status"] == "SUCCESS"
    assert receiver.received[0][1]["PhysicalResourceId"] == own_id("local")


def test_broken_properties_are_answered_without_a_call(api: FakeApi, receiver: Receiver) -> None:
    event = {**events.create(properties(TimeoutMinutes="never")), "ResponseURL": receiver.url}
    item = work.handler({"step": "begin", "work": {"event": event, "started": STARTED}}, None)
    assert item["state"] == "done"
    work.handler({"step": "answer", "work": item}, None)
    body = receiver.received[0][1]
    assert (body["Status"], body["PhysicalResourceId"]) == ("FAILED", "not-created/local")
    assert "TimeoutMinutes is 'never'" in body["Reason"]
    assert api.requests == []


@pytest.mark.usefixtures("api")
@pytest.mark.parametrize("from_poll", [False, True])
def test_a_crash_is_answered_failed_with_an_id_whose_delete_looks_for_the_cluster(
    from_poll: bool, receiver: Receiver
) -> None:
    event = {**events.create(), "ResponseURL": receiver.url}
    item: dict[str, Any] = {"event": event, "started": STARTED}
    if from_poll:
        item = work.handler({"step": "begin", "work": item}, None)
    crashed = {**item, "error": {"Error": "Sandbox.Timedout", "Cause": "Task timed out"}}
    assert work.handler({"step": "answer", "work": crashed}, None)["status"] == "FAILED"
    body = receiver.received[0][1]
    assert body["PhysicalResourceId"] == own_id("local")
    assert "Sandbox.Timedout: Task timed out" in body["Reason"]


@pytest.mark.usefixtures("api")
def test_an_early_answer_is_the_only_one(receiver: Receiver) -> None:
    """CloudFormation has its answer; the verdict at the end is only for the resources that wait."""
    long = properties(TimeoutMinutes="180", WaitsBehind="1")
    event = {**events.create(long), "ResponseURL": receiver.url}
    item = work.handler({"step": "begin", "work": {"event": event, "started": STARTED}}, None)
    item = work.handler({"step": "tell", "work": item}, None)
    assert item["handed_over"] is True and item["state"] == "waiting" and item["verdict"] is None
    answers = [body for _, body in receiver.received]
    assert [answer["Status"] for answer in answers] == ["SUCCESS"]
    assert answers[0]["Data"]["ClusterName"] == "local"
    while item["state"] == "waiting":
        item = work.handler({"step": "poll", "work": item}, None)
    verdict = work.handler({"step": "answer", "work": item}, None)
    assert verdict == {"status": "SUCCESS", "reason": "The cluster is CREATE_COMPLETE."}
    crashed = {**item, "error": {"Error": "Sandbox.Timedout", "Cause": "Task timed out"}}
    assert work.handler({"step": "answer", "work": crashed}, None)["status"] == "FAILED"
    assert len(receiver.received) == 1


def test_a_step_of_no_name_is_refused() -> None:
    with pytest.raises(ValueError, match="allowed are begin, poll, tell and answer"):
        work.handler({"step": "dance"}, None)


@pytest.mark.usefixtures("api")
def test_nothing_of_the_configuration_is_logged(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    wanted = properties()
    wanted["Configuration"]["Secret"] = "hidden-value"
    event = {**events.create(wanted), "ResponseURL": receiver.url}
    item = work.handler({"step": "begin", "work": {"event": event, "started": STARTED}}, None)
    work.handler({"step": "poll", "work": item}, None)
    on_event.receive(event, on_event.StepFunctions(Executions(), "arn:machine"), send=response.send)
    assert "hidden-value" not in caplog.text and "secret" not in caplog.text

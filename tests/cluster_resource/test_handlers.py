"""The Lambda handlers, and what reaches CloudFormation."""

from pathlib import Path
from typing import Any

import pytest

from cluster_resource import work
from cluster_resource.operation import epoch_seconds
from tests.cluster_resource import events
from tests.cluster_resource.events import STARTED, own_id, properties
from tests.cluster_resource.fake_api import FakeApi
from tests.cluster_resource.replay import Server
from tests.cluster_resource.test_on_event import StepFunctions


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    api = FakeApi()
    monkeypatch.setattr(work, "_api_for", lambda _: api)
    monkeypatch.setattr("time.time", lambda: float(epoch_seconds(STARTED)))
    return api


@pytest.mark.usefixtures("api")
def test_the_steps_lead_from_event_to_answer(receiver: Server) -> None:
    event = {**events.create(), "ResponseURL": receiver.url}
    item = work.handler({"step": "begin", "work": {"event": event, "started": STARTED}}, None)
    assert item["state"] == "waiting" and item["verdict"] is None and item["event"] == event
    while item["state"] == "waiting":
        item = work.handler({"step": "poll", "work": item}, None)
    answer = work.handler({"step": "answer", "work": item}, None)
    assert answer["status"] == "SUCCESS"
    assert receiver.bodies[0]["PhysicalResourceId"] == own_id("local")


def test_broken_properties_are_answered_without_a_call(api: FakeApi, receiver: Server) -> None:
    event = {**events.create(properties(TimeoutMinutes="never")), "ResponseURL": receiver.url}
    item = work.handler({"step": "begin", "work": {"event": event, "started": STARTED}}, None)
    assert item["state"] == "done"
    work.handler({"step": "answer", "work": item}, None)
    body = receiver.bodies[0]
    assert (body["Status"], body["PhysicalResourceId"]) == ("FAILED", "not-created/local")
    assert "TimeoutMinutes is 'never'" in body["Reason"]
    assert api.requests == []


@pytest.mark.usefixtures("api")
@pytest.mark.parametrize("from_poll", [False, True])
def test_a_crash_is_answered_failed_with_an_id_whose_delete_looks_for_the_cluster(
    from_poll: bool, receiver: Server
) -> None:
    event = {**events.create(), "ResponseURL": receiver.url}
    item: dict[str, Any] = {"event": event, "started": STARTED}
    if from_poll:
        item = work.handler({"step": "begin", "work": item}, None)
    crashed = {**item, "error": {"Error": "Sandbox.Timedout", "Cause": "Task timed out"}}
    assert work.handler({"step": "answer", "work": crashed}, None)["status"] == "FAILED"
    body = receiver.bodies[0]
    assert body["PhysicalResourceId"] == own_id("local")
    assert "Sandbox.Timedout: Task timed out" in body["Reason"]


@pytest.mark.usefixtures("api")
def test_an_early_answer_is_the_only_one(receiver: Server) -> None:
    """CloudFormation has its answer; the verdict at the end is only for the resources that wait."""
    long = properties(TimeoutMinutes="180", WaitsBehind="1")
    event = {**events.create(long), "ResponseURL": receiver.url}
    item = work.handler({"step": "begin", "work": {"event": event, "started": STARTED}}, None)
    item = work.handler({"step": "tell", "work": item}, None)
    assert item["handed_over"] is True and item["state"] == "waiting" and item["verdict"] is None
    answers = receiver.bodies
    assert [answer["Status"] for answer in answers] == ["SUCCESS"]
    assert answers[0]["Data"]["ClusterName"] == "local"
    while item["state"] == "waiting":
        item = work.handler({"step": "poll", "work": item}, None)
    verdict = work.handler({"step": "answer", "work": item}, None)
    assert verdict == {"status": "SUCCESS", "reason": "The cluster is CREATE_COMPLETE."}
    crashed = {**item, "error": {"Error": "Sandbox.Timedout", "Cause": "Task timed out"}}
    assert work.handler({"step": "answer", "work": crashed}, None)["status"] == "FAILED"
    assert len(receiver.requests) == 1


def test_a_step_of_no_name_is_refused() -> None:
    with pytest.raises(ValueError, match="allowed are begin, poll, tell and answer"):
        work.handler({"step": "dance"}, None)


@pytest.mark.usefixtures("api")
def test_nothing_of_the_configuration_is_logged(receiver: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    wanted = properties()
    wanted["Configuration"]["Secret"] = "hidden-value"
    event = {**events.create(wanted), "ResponseURL": receiver.url}
    item = work.handler({"step": "begin", "work": {"event": event, "started": STARTED}}, None)
    work.handler({"step": "poll", "work": item}, None)
    StepFunctions().receive(event)
    assert "hidden-value" not in caplog.text and "secret" not in caplog.text


def test_the_package_is_small_and_contains_no_library() -> None:
    """It is fetched at each cold start."""
    folder = Path(work.__file__).parent
    files = [file for file in folder.rglob("*") if file.is_file() and file.suffix != ".pyc"]
    assert {file.suffix for file in files} <= {".py", ".typed"} and sum(file.stat().st_size for file in files) < 1e6
    assert not (folder.parent / "requirements.txt").exists()

"""The Lambda handlers, and what reaches CloudFormation."""

from typing import Any

import pytest

from cluster_resource import handler
from cluster_resource.operation import epoch_seconds
from tests.cluster_resource import events
from tests.cluster_resource.events import STARTED, FakeAws, StepFunctions, own_id, properties
from tests.cluster_resource.fake_api import FakeApi
from tests.stubs import Server


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    api = FakeApi()
    monkeypatch.setattr(handler, "_api_for", lambda _: api)
    monkeypatch.setattr(handler, "own_aws", FakeAws)
    monkeypatch.setattr("time.time", lambda: float(epoch_seconds(STARTED)))
    return api


def step(name: str, item: dict[str, Any]) -> dict[str, Any]:
    return handler.handler({"step": name, "work": item}, None)


def begun(receiver: Server, **others: Any) -> dict[str, Any]:  # noqa: ANN401 - properties
    """What the first step returns for a Create."""
    event = {**events.create(properties(**others)), "ResponseURL": receiver.url}
    return step("begin", {"event": event, "started": STARTED})


def polled(item: dict[str, Any]) -> dict[str, Any]:
    """The item after the last poll."""
    while item["state"] == "waiting":
        item = step("poll", item)
    return item


@pytest.mark.usefixtures("api")
def test_the_steps_lead_from_event_to_answer(receiver: Server) -> None:
    item = begun(receiver)
    assert item["state"] == "waiting" and item["verdict"] is None and item["event"]["ResponseURL"] == receiver.url
    assert step("answer", polled(item))["status"] == "SUCCESS"
    assert receiver.bodies[0]["PhysicalResourceId"] == own_id("local")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"TimeoutMinutes": "never"}, "TimeoutMinutes is 'never'"), ({"ApiUrl": ""}, "ApiUrl is missing")],
)
def test_broken_properties_are_answered_without_a_call(
    wrong: dict[str, str], said: str, api: FakeApi, receiver: Server
) -> None:
    item = begun(receiver, **wrong)
    assert item["state"] == "done"
    step("answer", item)
    body = receiver.bodies[0]
    assert (body["Status"], body["PhysicalResourceId"]) == ("FAILED", "not-created/local")
    assert said in body["Reason"] and api.requests == []


CRASH = {"error": {"Error": "Sandbox.Timedout", "Cause": "Task timed out"}}


@pytest.mark.usefixtures("api")
@pytest.mark.parametrize("from_poll", [False, True])
def test_a_crash_is_answered_failed_with_an_id_whose_delete_looks_for_the_cluster(
    from_poll: bool, receiver: Server
) -> None:
    item = begun(receiver)
    item = item if from_poll else {"event": item["event"], "started": STARTED}
    assert step("answer", {**item, **CRASH})["status"] == "FAILED"
    body = receiver.bodies[0]
    assert body["PhysicalResourceId"] == own_id("local") and "Sandbox.Timedout: Task timed out" in body["Reason"]


@pytest.mark.usefixtures("api")
def test_an_early_answer_is_the_only_one(receiver: Server) -> None:
    """CloudFormation has its answer; the verdict at the end is only for the resources that wait."""
    item = step("early", begun(receiver, TimeoutMinutes="180", WaitsBehind="1"))
    assert item["handed_over"] is True and item["state"] == "waiting" and item["verdict"] is None
    item = polled(item)
    assert step("answer", item) == {"status": "SUCCESS", "reason": "The cluster is CREATE_COMPLETE."}
    assert step("answer", {**item, **CRASH})["status"] == "FAILED"
    [answer] = receiver.bodies
    assert answer["Status"] == "SUCCESS" and answer["Data"]["ClusterName"] == "local"


def test_an_unknown_step_is_refused() -> None:
    with pytest.raises(ValueError, match="allowed are begin, poll, early and answer"):
        step("dance", {})


@pytest.mark.usefixtures("api")
def test_nothing_of_the_configuration_is_logged(receiver: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    item = begun(receiver, Configuration={**events.configuration(), "Secret": "hidden-value"})
    step("poll", item)
    StepFunctions().receive(item["event"])
    assert "hidden-value" not in caplog.text and "secret" not in caplog.text

"""Operations that take longer than CloudFormation waits for one resource."""

from typing import Any

import pytest

from cluster_resource.api import ApiUnknownError
from cluster_resource.aws import UNKNOWN, Execution
from cluster_resource.request import GONE_TYPE, WAIT_TYPE, Request
from tests.cluster_resource import events
from tests.cluster_resource.events import EXECUTION, OWNER, FakeAws, Machine, own_id, properties, rolling_back
from tests.cluster_resource.fake_api import Cluster, FakeApi, foreign, owned

HOURS = {"TimeoutMinutes": "180", "WaitsBehind": "3", "WaitsBefore": "3"}
SMALL, LARGE = properties(max_count=2, **HOURS), properties(max_count=4, **HOURS)
FOREVER = 10_000


def beside(kind: str, resource_type: str, **others: str) -> dict[str, Any]:
    wanted = {
        "ClusterName": "local",
        "Region": "us-east-1",
        "ApiUrl": "https://abc.execute-api.us-east-1.amazonaws.com/prod",
        "ApiUserRoleArn": "arn:aws:iam::123456789012:role/ApiUser",
        "Owner": OWNER,
        **({"Execution": EXECUTION} if resource_type == WAIT_TYPE else {}),
        **others,
    }
    event = events.event(kind, wanted, physical_id=None if kind == "Create" else "wait/1")
    return {**event, "ResourceType": resource_type, "LogicalResourceId": "Beside"}


class Slow(FakeApi):
    """Clusters and fleets stay as they are until the look of that number."""

    def __init__(self, *clusters: Cluster, looks: int) -> None:
        super().__init__(*clusters)
        self._looks = looks

    def describe(self, name: str) -> Any:  # noqa: ANN401
        self._looks -= 1
        self.frozen = self._looks > 0
        return super().describe(name)


class Silent(Slow):
    """Does not answer from the look of that number on."""

    def __init__(self, *clusters: Cluster, polls: int, looks: int, silent_for: int = 1) -> None:
        super().__init__(*clusters, looks=looks)
        self._silent = range(looks - polls, looks - polls - silent_for, -1)

    def describe(self, name: str) -> Any:  # noqa: ANN401
        if self._looks in self._silent:
            self._looks -= 1
            raise ApiUnknownError("GET: HTTP 504")
        return super().describe(name)


def test_a_creation_of_two_hours_is_told_once_for_the_time_being_and_ends_with_its_verdict() -> None:
    machine = Machine(Slow(looks=480))
    verdict = machine.run(events.create(SMALL), limit=FOREVER)
    assert verdict.status == "SUCCESS" and machine.polls > 470
    assert machine.told is not None and machine.told.status == "SUCCESS"
    assert machine.told.physical_id == verdict.physical_id == own_id("local")
    assert "goes on: the cluster is CREATE_IN_PROGRESS" in machine.told.reason
    assert set(machine.told.data) == set(verdict.data) and machine.told.data["Execution"] == EXECUTION


def test_nothing_is_told_before_the_window_ends() -> None:
    machine = Machine(Slow(looks=200))
    assert machine.run(events.create(SMALL)).status == "SUCCESS"
    assert machine.told is None


def test_past_its_own_time_limit_even_that_fails() -> None:
    machine = Machine(Slow(looks=FOREVER))
    verdict = machine.run(events.create(SMALL), limit=FOREVER)
    assert verdict.status == "FAILED" and "The time limit (TimeoutMinutes) passed" in verdict.reason
    assert machine.polls == 180 * 4


@pytest.mark.parametrize("stack", [events.ROLLING_BACK, None])
def test_in_a_rollback_or_where_nobody_tells_nothing_is_handed_over(stack: str | None) -> None:
    machine = Machine(Slow(owned("UPDATE_IN_PROGRESS"), looks=FOREVER), FakeAws(stack=stack))
    verdict = machine.run(events.update(LARGE, SMALL))
    assert verdict.status == "FAILED" and machine.told is None and machine.polls == 55 * 4
    assert ("continue-update-rollback" in verdict.reason) == (stack is not None)


def test_without_anybody_behind_a_longer_time_limit_does_not_count() -> None:
    machine = Machine(Slow(looks=FOREVER))
    verdict = machine.run(events.create(properties(TimeoutMinutes="180")))
    assert verdict.status == "FAILED" and machine.told is None and machine.polls == 55 * 4


def test_a_long_update_is_handed_over_and_fails_at_its_end() -> None:
    api = Slow(owned(), looks=300)
    api.outcomes["UPDATE_IN_PROGRESS"] = "UPDATE_ROLLBACK_IN_PROGRESS"
    machine = Machine(api)
    verdict = machine.run(events.update(LARGE, SMALL), limit=FOREVER)
    assert machine.told is not None and verdict.status == "FAILED"


@pytest.mark.parametrize("status", ["RUNNING", UNKNOWN])
def test_a_link_waits_for_its_window_and_hands_on(status: str) -> None:
    machine = Machine(FakeApi(owned()), FakeAws(executions={EXECUTION: Execution(status)}))
    verdict = machine.run(beside("Create", WAIT_TYPE, WaitsBehind="1"))
    assert verdict.status == "SUCCESS" and "Another resource waits for its end" in verdict.reason
    assert verdict.data["HeadNodeInstanceId"] == "none" and machine.polls == 55 * 4


def test_the_last_link_does_not_hand_on() -> None:
    machine = Machine(FakeApi(owned()), FakeAws(executions={EXECUTION: Execution("RUNNING")}))
    verdict = machine.run(beside("Update", WAIT_TYPE, WaitsBehind="0"))
    assert verdict.status == "FAILED" and "past its time limit" in verdict.reason


@pytest.mark.parametrize("known", [True, False])
def test_a_link_tells_the_attributes_at_the_end(known: bool) -> None:
    executions = {EXECUTION: Execution("SUCCEEDED")} if known else {}
    verdict = Machine(FakeApi(owned()), FakeAws(executions=executions)).run(beside("Create", WAIT_TYPE))
    assert (verdict.status, verdict.physical_id) == ("SUCCESS", Request.of(beside("Create", WAIT_TYPE)).own_id("wait"))
    assert verdict.data["HeadNodeInstanceId"] == "i-0123456789abcdef0"
    assert verdict.data["Execution"] == EXECUTION


@pytest.mark.parametrize(
    ("execution", "said"),
    [
        (Execution("FAILED", "The creation of the cluster local failed; why."), "failed; why."),
        (Execution("TIMED_OUT"), "TIMED_OUT: it gave no reason"),
        (Execution("ABORTED"), "a later event of the cluster took its place"),
    ],
)
def test_a_link_fails_as_the_execution_did(execution: Execution, said: str) -> None:
    machine = Machine(FakeApi(owned()), FakeAws(executions={EXECUTION: execution}))
    verdict = machine.run(beside("Create", WAIT_TYPE))
    assert verdict.status == "FAILED" and said in verdict.reason and machine.polls == 0


@pytest.mark.parametrize("api", [FakeApi(), FakeApi(foreign("local")), FakeApi(owned("DELETE_FAILED"))])
def test_a_link_believes_no_execution_whose_cluster_is_not_there(api: FakeApi) -> None:
    verdict = Machine(api, FakeAws(executions={EXECUTION: Execution("SUCCEEDED")})).run(beside("Create", WAIT_TYPE))
    assert verdict.status == "FAILED"


def test_the_deletion_of_a_link_and_the_making_of_a_gone_do_nothing() -> None:
    api = FakeApi(owned())
    for event in (
        beside("Delete", WAIT_TYPE),
        beside("Create", GONE_TYPE),
        beside("Update", GONE_TYPE),
    ):
        assert Machine(api).run(event).status == "SUCCESS"
    assert api.requests == []


def test_a_long_deletion_is_left_to_what_stands_before_the_cluster() -> None:
    api = Slow(owned(), looks=300)
    first = Machine(api)
    verdict = first.run(events.delete(SMALL))
    assert verdict.status == "SUCCESS" and "another resource waits for the end" in verdict.reason
    assert first.polls == 55 * 4 and "local" in api.clusters
    assert Machine(api).run(beside("Delete", GONE_TYPE, WaitsBefore="1")).status == "SUCCESS"
    assert "local" not in api.clusters and api.changing == [("delete", "local")]


def test_a_deletion_is_left_to_the_next_resource_although_the_api_is_silent_at_the_windows_end() -> None:
    """A minute of grace: the next look, 15 seconds later, shows the deletion."""
    api = Silent(owned(), polls=220, looks=300)
    verdict = Machine(api).run(events.delete(SMALL))
    assert verdict.status == "SUCCESS" and "another resource waits for the end" in verdict.reason
    api = Silent(owned(), polls=220, silent_for=5, looks=300)
    verdict = Machine(api).run(events.delete(SMALL))
    assert verdict.status == "FAILED" and "the API could not be reached" in verdict.reason


def test_the_last_that_waits_for_a_deletion_tells_the_truth() -> None:
    api = Slow(owned("DELETE_IN_PROGRESS"), looks=FOREVER)
    verdict = Machine(api).run(beside("Delete", GONE_TYPE, WaitsBefore="0"))
    assert verdict.status == "FAILED" and "Last seen: DELETE_IN_PROGRESS" in verdict.reason


def test_a_deletion_that_failed_is_asked_for_again_by_the_next_delete() -> None:
    api = FakeApi(owned("DELETE_FAILED"))
    assert Machine(api).run(beside("Delete", GONE_TYPE)).status == "SUCCESS"
    assert api.changing == [("delete", "local")]


@pytest.mark.parametrize(
    "status", ["CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_IN_PROGRESS", "UPDATE_ROLLBACK_FAILED"]
)
def test_what_waits_for_a_deletion_begins_none(status: str) -> None:
    """It is deleted as well when the time limit is lowered, or when the cluster is retained."""
    api = FakeApi(owned(status))
    assert Machine(api).run(beside("Delete", GONE_TYPE)).status == "SUCCESS"
    assert api.changing == []


def test_what_waits_for_a_deletion_touches_nobody_elses_cluster() -> None:
    api = FakeApi(foreign("local"))
    assert Machine(api).run(beside("Delete", GONE_TYPE)).status == "SUCCESS"
    assert api.changing == []


def test_the_old_cluster_of_a_rename_has_nobody_to_be_left_to() -> None:
    api = Slow(owned(name="old"), looks=FOREVER)
    verdict = Machine(api).run(events.delete({**properties("new"), **HOURS}, physical_id=own_id("old")))
    assert verdict.status == "FAILED" and "Last seen: DELETE_IN_PROGRESS" in verdict.reason


def test_a_rollback_waits_for_the_update_that_goes_on() -> None:
    api = Slow(owned("UPDATE_IN_PROGRESS"), looks=50)
    assert rolling_back(api).run(events.update(SMALL, LARGE)).status == "SUCCESS"

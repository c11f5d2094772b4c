"""Operations that take longer than CloudFormation waits for one resource."""

import copy
from typing import Any

import pytest

from cluster_resource.api import ApiUnknownError, ClusterView
from cluster_resource.aws import UNKNOWN, Execution
from cluster_resource.request import GONE_TYPE, WAIT_TYPE, Request
from tests.cluster_resource import events
from tests.cluster_resource.cases import Case, table
from tests.cluster_resource.events import EXECUTION, OWNER, ROLLING_BACK, FakeAws, Machine, own_id, properties
from tests.cluster_resource.fake_api import Cluster, FakeApi, foreign, owned

HOURS = {"TimeoutMinutes": "180", "WaitsBehind": "3", "WaitsBefore": "3"}
SMALL, LARGE = properties(max_count=2, **HOURS), properties(max_count=4, **HOURS)
UNWATCHED = properties(TimeoutMinutes="180")  # no resource waits behind the cluster
FOREVER = 10_000
HOUR = 55 * 3  # polls in the window of one resource


def waiter(kind: str, resource_type: str, **others: str) -> dict[str, Any]:
    """An event of a resource that waits for the cluster."""
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
    return {**event, "ResourceType": resource_type, "LogicalResourceId": "Waiter"}


class Slow(FakeApi):
    """Clusters and fleets stay as they are for a number of looks; the API does not answer the looks in `silent`."""

    def __init__(self, *clusters: Cluster, looks: int, silent: range = range(0)) -> None:
        super().__init__(*clusters)
        self._looks, self._left, self._silent = looks, looks, silent

    def describe(self, name: str) -> ClusterView | None:
        if self._looks - self._left in self._silent:
            self._left -= 1
            raise ApiUnknownError("GET: HTTP 504")
        self._left -= 1
        self.frozen = self._left > 0
        return super().describe(name)


def execution(status: str, cause: str = "") -> FakeAws:
    return FakeAws(executions={EXECUTION: Execution(status, cause)})


def test_a_creation_of_two_hours_has_one_early_answer_and_its_own_verdict() -> None:
    machine = Machine(Slow(looks=360))
    verdict = machine.run(events.create(SMALL), limit=FOREVER)
    assert verdict.status == "SUCCESS" and machine.polls > 350
    assert machine.early is not None and machine.early.status == "SUCCESS"
    assert machine.early.physical_id == verdict.physical_id == own_id("local")
    assert "goes on: the cluster is CREATE_IN_PROGRESS" in machine.early.reason
    assert set(machine.early.data) == set(verdict.data) and machine.early.data["Execution"] == EXECUTION


def test_a_long_update_is_handed_over_and_fails_at_its_end() -> None:
    api = Slow(owned(), looks=300)
    api.outcomes["UPDATE_IN_PROGRESS"] = "UPDATE_ROLLBACK_IN_PROGRESS"
    machine = Machine(api)
    assert machine.run(events.update(LARGE, SMALL), limit=FOREVER).status == "FAILED" and machine.early is not None


@pytest.mark.parametrize(
    ("api", "event", "stack", "status", "polls"),
    [
        (Slow(looks=150), events.create(SMALL), "CREATE_IN_PROGRESS", "SUCCESS", None),
        (Slow(owned("UPDATE_IN_PROGRESS"), looks=FOREVER), events.update(LARGE, SMALL), ROLLING_BACK, "FAILED", HOUR),
        (Slow(owned("UPDATE_IN_PROGRESS"), looks=FOREVER), events.update(LARGE, SMALL), None, "FAILED", HOUR),
        (Slow(looks=FOREVER), events.create(UNWATCHED), "CREATE_IN_PROGRESS", "FAILED", HOUR),
    ],
    ids=["quick", "rollback", "CloudFormation does not answer", "no waiter behind"],
)
def test_no_early_answer(api: Slow, event: dict[str, Any], stack: str | None, status: str, polls: int | None) -> None:
    machine = Machine(copy.deepcopy(api), FakeAws(stack=stack))
    verdict = machine.run(event)
    assert verdict.status == status and machine.early is None and polls in (None, machine.polls)
    assert ("continue-update-rollback" in verdict.reason) == (stack == ROLLING_BACK)


@table(
    {
        "past its own time limit": Case(
            Slow(looks=FOREVER),
            events.create(SMALL),
            "FAILED",
            ("The time limit (TimeoutMinutes) passed",),
            polls=180 * 3,
        ),
        **{
            f"hands on, {status}": Case(
                FakeApi(owned()),
                waiter("Update", WAIT_TYPE, WaitsBehind="1"),
                says=("Another resource waits for its end",),
                polls=HOUR,
                aws=execution(status),
            )
            for status in ("RUNNING", UNKNOWN)
        },
        "the last waiter": Case(
            FakeApi(owned()),
            waiter("Update", WAIT_TYPE, WaitsBehind="0"),
            "FAILED",
            ("past its time limit",),
            aws=execution("RUNNING"),
        ),
        **{
            status: Case(
                FakeApi(owned()), waiter("Create", WAIT_TYPE), "FAILED", (said,), polls=0, aws=execution(status, cause)
            )
            for status, cause, said in (
                ("FAILED", "The creation of the cluster local failed; why.", "failed; why."),
                ("TIMED_OUT", "", "TIMED_OUT: it gave no reason"),
                ("ABORTED", "", "a later event of the cluster took its place"),
            )
        },
        **{
            f"succeeded, {label}": Case(api, waiter("Create", WAIT_TYPE), "FAILED", aws=execution("SUCCEEDED"))
            for label, api in (
                ("no cluster", FakeApi()),
                ("not ours", FakeApi(foreign("local"))),
                ("not steady", FakeApi(owned("DELETE_FAILED"))),
            )
        },
    }
)
def test_a_waiter_behind_the_cluster(case: Case) -> None:
    case.check()


@pytest.mark.parametrize(
    "aws", [execution("SUCCEEDED"), FakeAws(executions={EXECUTION: None})], ids=["succeeded", "execution unknown"]
)
def test_a_waiter_returns_the_attributes_at_the_end(aws: FakeAws) -> None:
    event = waiter("Create", WAIT_TYPE)
    verdict = Machine(FakeApi(owned()), aws).run(event)
    assert (verdict.status, verdict.physical_id) == ("SUCCESS", Request.of(event).own_id("wait"))
    assert (verdict.data["HeadNodeInstanceId"], verdict.data["Execution"]) == ("i-0123456789abcdef0", EXECUTION)


@pytest.mark.parametrize(
    ("kind", "resource_type"), [("Delete", WAIT_TYPE), ("Create", GONE_TYPE), ("Update", GONE_TYPE)]
)
def test_events_that_ask_for_nothing(kind: str, resource_type: str) -> None:
    api = FakeApi(owned())
    assert Machine(api).run(waiter(kind, resource_type)).status == "SUCCESS" and api.requests == []


def test_a_long_deletion_is_left_to_the_waiter_before_the_cluster() -> None:
    api = Slow(owned(), looks=300)
    Case(api, events.delete(SMALL), says=("another resource waits for the end",), polls=HOUR).check()
    assert "local" in api.clusters
    Case(api, waiter("Delete", GONE_TYPE, WaitsBefore="1"), changing=("delete local",)).check()
    assert "local" not in api.clusters


@table(
    {
        # A minute of grace: the next look, 20 seconds later, shows the deletion.
        "API silent at the window's end": Case(
            Slow(owned(), looks=300, silent=range(HOUR, HOUR + 1)),
            events.delete(SMALL),
            says=("another resource waits for the end",),
        ),
        "API silent for longer": Case(
            Slow(owned(), looks=300, silent=range(HOUR, HOUR + 4)),
            events.delete(SMALL),
            "FAILED",
            ("a call to the API failed",),
        ),
        "the last waiter": Case(
            Slow(owned("DELETE_IN_PROGRESS"), looks=FOREVER),
            waiter("Delete", GONE_TYPE, WaitsBefore="0"),
            "FAILED",
            ("Last seen: DELETE_IN_PROGRESS",),
        ),
        "old cluster of a rename": Case(
            Slow(owned(name="old"), looks=FOREVER),
            events.delete({**properties("new"), **HOURS}, physical_id=own_id("old")),
            "FAILED",
            ("Last seen: DELETE_IN_PROGRESS",),
        ),
        "gone already": Case(FakeApi(), waiter("Delete", GONE_TYPE), changing=(), polls=0),
        "repeats a failed deletion": Case(
            FakeApi(owned("DELETE_FAILED")), waiter("Delete", GONE_TYPE), changing=("delete local",)
        ),
        # It is also deleted when the time limit is lowered, or when the cluster is retained.
        **{
            f"begins none, {status}": Case(FakeApi(owned(status)), waiter("Delete", GONE_TYPE), changing=())
            for status in ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_IN_PROGRESS", "UPDATE_ROLLBACK_FAILED")
        },
        "not ours": Case(FakeApi(foreign("local")), waiter("Delete", GONE_TYPE), changing=()),
    }
)
def test_a_deletion_and_the_waiter_before_the_cluster(case: Case) -> None:
    case.check()


def test_a_rollback_waits_for_the_update_that_goes_on() -> None:
    api = Slow(owned("UPDATE_IN_PROGRESS"), looks=50)
    Case(api, events.update(SMALL, LARGE), aws=FakeAws(stack=ROLLING_BACK)).check()

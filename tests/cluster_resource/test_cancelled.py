"""What CloudFormation cancelled: the execution is stopped, but the call that it has sent may still be carried out."""

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from cluster_resource import decide
from cluster_resource.api import ApiUnknownError
from cluster_resource.aws import UNKNOWN, Execution
from cluster_resource.operation import Progress
from tests.cluster_resource import events
from tests.cluster_resource.cases import Case, table
from tests.cluster_resource.events import EXECUTION, ROLLING_BACK, FakeAws, Machine, own_id, properties, text_of
from tests.cluster_resource.fake_api import FakeApi, foreign, owned
from tests.cluster_resource.stack_model import INVENTED

SMALL, LARGE = properties(max_count=2), properties(max_count=4)
OLD, NEW = properties("old"), properties("new")
OTHER_OS = {**SMALL, "Configuration": {**SMALL["Configuration"], "Image": {"Os": "ubuntu2404"}}}
BACK = events.update(SMALL, LARGE)
BACK_TO_OLD = events.update(OLD, NEW, own_id("old"))
ASSETS = events.update(properties(AssetsVersion="2"), SMALL)
ROLLBACK = FakeAws(stack=ROLLING_BACK)
MINUTE = 60 // events.POLL_SECONDS


def in_flight(method: str, name: str, wanted: dict[str, Any], looks: int, *clusters: Any) -> FakeApi:  # noqa: ANN401 - Cluster
    """An API whose function still works on a call: it is carried out at the end of that many looks."""
    api = FakeApi(*clusters, late_looks=looks, faults={method: [(ApiUnknownError("no answer yet"), "late")]})
    with suppress(ApiUnknownError):
        getattr(api, method)(name, text_of(wanted))
    api.requests.clear()
    return api


@table(
    {
        "nothing appears": Case(FakeApi(), events.delete(physical_id=INVENTED), physical_id=INVENTED, polls=5),
        "until the time limit": Case(FakeApi(), events.delete(properties(AnswerMinutes="1"), INVENTED), polls=MINUTE),
        "known, gone": Case(FakeApi(), events.delete(), polls=0),
        "known, of a rename": Case(FakeApi(), events.delete(NEW, own_id("old")), polls=0),
        "never made": Case(FakeApi(), events.delete(physical_id="not-created/local"), polls=0),
        "somebody else's": Case(FakeApi(foreign("local")), events.delete(physical_id=INVENTED), polls=0),
        "there": Case(FakeApi(owned()), events.delete(physical_id=INVENTED), changing=("delete local",), polls=2),
    }
)
def test_only_the_delete_of_a_create_that_never_answered_waits(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("looks", [1, 2, 3, 4, 5])
def test_a_cluster_that_appears_after_its_delete_has_begun_is_deleted(looks: int) -> None:
    api = in_flight("create", "local", SMALL, looks)
    # It is seen one look later, and is gone two looks after that.
    Case(api, events.delete(physical_id=INVENTED), changing=("delete local",), polls=looks + 2).check()
    assert api.clusters == {}


@table(
    {
        "no changes": Case(FakeApi(owned()), BACK, changing=(), polls=MINUTE, aws=ROLLBACK),
        "unchanged": Case(FakeApi(owned()), ASSETS, changing=(), polls=MINUTE, aws=ROLLBACK),
        "rolled back": Case(FakeApi(owned("UPDATE_ROLLBACK_COMPLETE")), BACK, changing=(), polls=MINUTE, aws=ROLLBACK),
        "stack status unknown": Case(FakeApi(owned()), ASSETS, changing=(), polls=MINUTE, aws=FakeAws(stack=None)),
        "an update": Case(FakeApi(owned()), ASSETS, changing=(), polls=0),
        "a create": Case(FakeApi(owned()), events.create(), changing=(), polls=0, aws=ROLLBACK),
        "its own update": Case(FakeApi(owned()), events.update(LARGE, SMALL), polls=2, aws=ROLLBACK),
    }
)
def test_only_a_rollback_without_a_change_waits(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("looks", [1, 2, 3])
def test_an_update_that_begins_after_its_rollback_is_undone(looks: int) -> None:
    api = in_flight("update", "local", LARGE, looks, owned())
    verdict = Case(api, BACK, changing=("stop local", "update local", "start local"), aws=ROLLBACK).check()
    assert verdict.reason == "The cluster is UPDATE_COMPLETE."


@table(
    {
        "nothing appears": Case(FakeApi(owned(name="old")), BACK_TO_OLD, changing=(), polls=5, aws=ROLLBACK),
        "stack status unknown": Case(FakeApi(owned(name="old")), BACK_TO_OLD, polls=5, aws=FakeAws(stack=None)),
        "somebody else's": Case(
            FakeApi(owned(name="old"), foreign("new")), BACK_TO_OLD, changing=(), polls=MINUTE, aws=ROLLBACK
        ),
        "not a rollback": Case(FakeApi(owned(name="old")), BACK_TO_OLD, changing=(), polls=0),
    }
)
def test_the_way_back_of_a_rename_waits_for_the_new_cluster(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("looks", [1, 2, 3, 4, 5])
def test_a_cluster_that_appears_after_the_way_back_of_its_rename_has_begun_is_deleted(looks: int) -> None:
    api = in_flight("create", "new", NEW, looks, owned(name="old"))
    Case(api, BACK_TO_OLD, changing=("delete new",), aws=ROLLBACK).check()


def test_the_waits_are_longer_than_a_call_can_take() -> None:
    """A call takes up to 30 s in the API's function, and before that four attempts to connect."""

    def seconds(waits: Any) -> int:  # noqa: ANN401 - a function of Progress
        looks = next(looks for looks in range(1, 100) if not waits(Progress(looks=looks)))
        return (looks - 1) * events.POLL_SECONDS

    assert (seconds(decide.cluster_may_appear), seconds(decide.update_may_begin)) == (100, 60)


def allowing(wanted: dict[str, Any], **updates: str) -> dict[str, Any]:
    return {**wanted, "Updates": updates}


CALLS = {
    "create": (FakeApi(), events.create(), ("create local",)),
    "update": (FakeApi(owned()), events.update(LARGE, SMALL), ("update local",)),
    "delete, to create": (FakeApi(owned("ROLLBACK_COMPLETE")), events.create(), ("delete local", "create local")),
    "replace": (
        FakeApi(owned()),
        events.update(allowing(OTHER_OS, Replace="when-needed"), SMALL),
        ("delete local", "create local"),
    ),
    "stop the fleet": (
        FakeApi(owned(max_count=4)),
        events.update(allowing(SMALL, StopFleet="when-needed"), LARGE),
        ("stop local", "update local", "start local"),
    ),
}


@table(
    {
        call: Case(api, event, aws=FakeAws(executions={EXECUTION: Execution("ABORTED")}))
        for call, (api, event, _) in CALLS.items()
    }
)
def test_a_step_of_a_stopped_execution_changes_nothing(case: Case) -> None:
    machine = Machine(case.api, case.aws)
    assert machine.run(case.event, limit=3, cancelled=True).reason == "cancelled"
    assert case.api.changing == []


@dataclass
class Slow(FakeAws):
    """Step Functions shows an execution as running only after some answers: it is eventually consistent."""

    answers: list[Execution | None] = field(default_factory=lambda: [None, Execution(UNKNOWN)])

    def execution(self, arn: str) -> Execution | None:
        assert arn == EXECUTION
        return self.answers.pop(0) if self.answers else super().execution(arn)


@table({call: Case(api, event, changing=changing, aws=Slow()) for call, (api, event, changing) in CALLS.items()})
def test_a_step_waits_until_step_functions_shows_its_execution(case: Case) -> None:
    case.check()


def test_without_an_answer_of_step_functions_nothing_is_created() -> None:
    Case(
        FakeApi(),
        events.create(properties(TimeoutMinutes="5")),
        "FAILED",
        ("because Step Functions reports its execution as UNKNOWN",),
        (),
        "not-created/local",
        aws=FakeAws(executions={EXECUTION: Execution(UNKNOWN)}),
    ).check()


def test_a_deletion_does_not_ask_step_functions() -> None:
    aws = FakeAws(stack="DELETE_IN_PROGRESS", executions={EXECUTION: Execution(UNKNOWN)})
    Case(FakeApi(owned()), events.delete(), changing=("delete local",), polls=2, aws=aws).check()

"""What an update may do to the fleet, to jobs, to the cluster: only what its environment allows."""

from typing import Any

import pytest

from cluster_resource.api import ApiError, ApiUnknownError, Change
from cluster_resource.policies import Policy
from cluster_resource.request import Request
from tests.cluster_resource import events
from tests.cluster_resource.cases import Case, table
from tests.cluster_resource.events import ROLLING_BACK, FakeAws, own_id, properties, text_of
from tests.cluster_resource.fake_api import MAX_COUNT, OFFICIAL, FakeApi, owned

REFUSED = ApiError(400, "Bad Request: no.")
REPLACED = ("delete local", "create local")
RESTARTED = ("stop local", "update local", "start local")


def allowed(wanted: dict[str, Any], **updates: str) -> dict[str, Any]:
    return {**wanted, "Updates": updates}


SMALL, LARGE = properties(max_count=2), properties(max_count=4)
OTHER_OS = {**SMALL, "Configuration": {**SMALL["Configuration"], "Image": {"Os": "ubuntu2404"}}}
STOPPING = allowed(SMALL, StopFleet="when-needed")
REPLACING = allowed(OTHER_OS, Replace="when-needed")
SHRINK = events.update(SMALL, LARGE)
SHRINK_STOPPED = events.update(STOPPING, LARGE)
REPLACE = events.update(REPLACING, SMALL)
LOGIN = Change("SharedStorage", "-", "-", "All login nodes must be stopped. Stop the login nodes by setting Count.")


def terminating(max_count: int) -> dict[str, Any]:
    wanted = properties(max_count=max_count)
    wanted["Configuration"]["Scheduling"]["SlurmSettings"] = {"QueueUpdateStrategy": "TERMINATE"}
    return wanted


def large(compute_nodes: int = 0, **settings: Any) -> FakeApi:  # noqa: ANN401 - the attributes of FakeApi
    return FakeApi(owned(max_count=4, compute_nodes=compute_nodes), **settings)


def rollback(jobs: int | None = None) -> FakeAws:
    return FakeAws(stack=ROLLING_BACK, jobs=jobs)


@table(
    {
        "stopped, updated, started": Case(large(), SHRINK_STOPPED, changing=RESTARTED),
        "no jobs on the nodes": Case(large(2), SHRINK_STOPPED, changing=RESTARTED, aws=FakeAws(jobs=0)),
        "jobs may be killed": Case(
            large(2),
            events.update(allowed(SMALL, StopFleet="when-needed", RunningJobs="may-be-killed"), LARGE),
            changing=RESTARTED,
            aws=FakeAws(jobs=3),
        ),
        "terminate, without jobs": Case(
            large(1), events.update(terminating(2), LARGE), changing=("update local",), aws=FakeAws(jobs=0)
        ),
        "terminate that only adds nodes": Case(
            FakeApi(owned(compute_nodes=1)), events.update(terminating(8), SMALL), aws=FakeAws(jobs=1)
        ),
        "replaced for a key": Case(FakeApi(owned()), REPLACE, changing=REPLACED, physical_id=own_id("local")),
        **{
            f"replaced, 504 to the {call}, done: {done}": Case(
                FakeApi(owned(), faults={call: [OFFICIAL] * (call == "create") + [(ApiUnknownError("504"), done)]}),
                REPLACE,
                changing=REPLACED if done else tuple(one for one in REPLACED for _ in range(1 + one.startswith(call))),
            )
            for call in ("create", "delete")
            for done in (True, False)
        },
        "replaced for a version": Case(
            FakeApi(owned(version="3.15.0")),
            events.update(allowed(LARGE, Replace="when-needed"), SMALL),
            changing=REPLACED,
        ),
        "rollback stops an idle fleet": Case(large(), SHRINK, changing=RESTARTED, aws=rollback()),
    }
)
def test_an_allowed_update_succeeds(case: Case) -> None:
    case.check()


@table(
    {
        "fleet not stopped": Case(
            large(),
            SHRINK,
            "FAILED",
            (
                f"{MAX_COUNT}: now 4, asked for 2 (needs the compute fleet stopped)",
                "cluster.updates.stop_fleet: when-needed",
                "cluster.slurm.queue_update: TERMINATE",
            ),
            polls=0,
        ),
        **{
            said: Case(
                large(2), SHRINK_STOPPED, "FAILED", (said, "running_jobs: may-be-killed"), aws=FakeAws(jobs=jobs)
            )
            for jobs, said in ((3, "3 jobs run"), (1, "1 job runs"), (None, "Make the head node answer"))
        },
        "terminate": Case(
            large(1),
            events.update(terminating(2), LARGE),
            "FAILED",
            (f"TERMINATE ends the nodes behind {MAX_COUNT}",),
            aws=FakeAws(jobs=1),
        ),
        "not replaced": Case(FakeApi(owned()), events.update(OTHER_OS, SMALL), "FAILED"),
        "stopping would suffice": Case(large(), events.update(allowed(SMALL, Replace="when-needed"), LARGE), "FAILED"),
        "new cluster invalid": Case(
            FakeApi(owned(), faults={"create": [ApiError(400, "Invalid: no such key pair")]}),
            REPLACE,
            "FAILED",
            ("no such key pair",),
        ),
        "replacing counts jobs": Case(
            FakeApi(owned(compute_nodes=1)),
            REPLACE,
            "FAILED",
            ("has to be replaced, and 2 jobs run",),
            aws=FakeAws(jobs=2),
        ),
        "another version": Case(
            FakeApi(owned(version="3.15.0")), events.update(LARGE, SMALL), "FAILED", ("docs/cluster-updates.md",)
        ),
        "rollback waits for jobs": Case(
            large(1), SHRINK, "FAILED", ("the rollback waits for their end",), polls=55 * 3, aws=rollback(jobs=1)
        ),
        "rollback, jobs unknown": Case(large(1), SHRINK, "FAILED", aws=rollback()),
        "rollback, other refusal": Case(
            large(faults={"dry run": [ApiError(400, "Update failure", refused=(LOGIN,))]}),
            SHRINK,
            "FAILED",
            aws=rollback(),
        ),
    }
)
def test_an_update_that_is_not_allowed_changes_nothing(case: Case) -> None:
    case.changing = ()
    case.check()


@table(
    {
        "refused": Case(
            large(faults={"update": [REFUSED]}), SHRINK_STOPPED, "FAILED", ("its start was requested again",)
        ),
        "rolled back": Case(
            large(outcomes={"UPDATE_IN_PROGRESS": "UPDATE_ROLLBACK_IN_PROGRESS"}),
            SHRINK_STOPPED,
            "FAILED",
            ("its start was requested again",),
        ),
        "start fails": Case(
            large(
                faults={
                    "update": [REFUSED],
                    "request_fleet": [(ApiUnknownError("HTTP 500"), True), ApiUnknownError("PATCH: HTTP 500")],
                }
            ),
            SHRINK_STOPPED,
            "FAILED",
            ("could not be started again: PATCH: HTTP 500",),
        ),
    }
)
def test_the_fleet_is_started_again_after_a_failure(case: Case) -> None:
    case.check()
    assert case.api.changing[-1] == ("start", "local")


@pytest.mark.parametrize("lost", [False, True])
def test_the_rollback_of_a_replacement_makes_the_former_cluster_again(lost: bool) -> None:
    """`lost`: the cluster had been deleted from outside, and the update made it with a value that never changes."""
    api = FakeApi(owned())
    if lost:
        api.clusters["local"].configuration = text_of(OTHER_OS)
    else:
        api.outcomes = {"CREATE_IN_PROGRESS": "ROLLBACK_IN_PROGRESS"}
        Case(api, REPLACE, "FAILED").check()
        api.outcomes = {}
    Case(api, events.update(SMALL, OTHER_OS if lost else REPLACING), aws=rollback()).check()
    assert [" ".join(item) for item in api.changing[-2:]] == [*REPLACED]


def test_a_rollback_may_do_what_the_update_was_allowed_to_do() -> None:
    event = events.update(SMALL, allowed(LARGE, RunningJobs="may-be-killed", Replace="when-needed"))
    assert Request.of(event).policy(rollback=True) == Policy(replace=True, kill_jobs=True, rollback=True)
    assert Request.of(event).policy(rollback=False) == Policy()


def test_the_rollback_of_an_update_with_a_wrong_policy_does_not_fail_too() -> None:
    event = events.update(STOPPING, allowed(LARGE, StopFlet="when-needed"))
    assert Request.of(event).policy(rollback=True) == Policy(stop_fleet=True, rollback=True)

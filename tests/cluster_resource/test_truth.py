"""COMPLETE means: the configuration that was asked for, and a compute fleet that runs."""

import pytest

from cluster_resource.api import ApiError, ApiUnknownError, StackEvent
from tests.cluster_resource import events
from tests.cluster_resource.events import FakeAws, Machine, properties, text_of
from tests.cluster_resource.fake_api import FakeApi, owned

SMALL, LARGE = properties(max_count=2), properties(max_count=4)


@pytest.mark.parametrize("status", ["START_REQUESTED", "STARTING", "STOP_REQUESTED", "STOPPING", "STOPPED"])
def test_a_creation_is_complete_when_its_fleet_runs(status: str) -> None:
    api = FakeApi()
    api.fleet_of_new = status
    assert Machine(api).run(events.create()).status == "SUCCESS"
    assert api.clusters["local"].fleet == "RUNNING"


@pytest.mark.parametrize("status", ["UNKNOWN", "PROTECTED"])
def test_a_creation_whose_fleet_never_runs_has_failed(status: str) -> None:
    api = FakeApi()
    api.fleet_of_new = status
    verdict = Machine(api).run(events.create())
    assert verdict.status == "FAILED" and status in verdict.reason
    assert "log group /aws/parallelcluster/local-202611210800" in verdict.reason


@pytest.mark.parametrize("status", ["STOPPED", "PROTECTED", "STOPPING"])
def test_an_update_leaves_the_fleet_running_even_if_it_changes_nothing(status: str) -> None:
    api = FakeApi(owned(fleet=status))
    assert Machine(api).run(events.update(properties(AssetsVersion="2"), SMALL)).status == "SUCCESS"
    assert api.clusters["local"].fleet == "RUNNING"


def test_an_update_that_somebody_else_undid_is_sent_again_and_never_called_done() -> None:
    api = FakeApi(owned())
    describe = api.describe

    def undo(name: str) -> object:
        view = describe(name)
        if view and view.status == "UPDATE_COMPLETE":
            api.clusters[name].configuration = text_of(SMALL)
        return view

    api.describe = undo  # type: ignore[assignment, method-assign]
    verdict = Machine(api).run(events.update(LARGE, SMALL))
    assert verdict.status == "FAILED" and "another configuration" in verdict.reason


def test_a_lost_answer_about_the_fleet_is_asked_for_again() -> None:
    api = FakeApi()
    api.faults["fleet"] = [(ApiUnknownError("GET: HTTP 502"), False), (ApiError(429, "Too Many Requests"), False)]
    assert Machine(api).run(events.create()).status == "SUCCESS"


def test_an_api_of_another_version_is_found_out_before_anything_is_made() -> None:
    api = FakeApi()
    api.told_version = "3.17.0"
    verdict = Machine(api).run(events.create())
    assert (verdict.status, verdict.physical_id) == ("FAILED", "not-created/local")
    assert "creates clusters of ParallelCluster 3.17.0, but 3.16.1 is wanted" in verdict.reason
    assert api.changing == []


@pytest.mark.parametrize("fault", [ApiUnknownError("GET: HTTP 500"), ApiError(400, "no such os")])
def test_an_api_that_does_not_tell_its_version_is_used_all_the_same(fault: Exception) -> None:
    api = FakeApi()
    api.faults["api_version"] = [(fault, False)]
    assert Machine(api).run(events.create()).status == "SUCCESS"


def stack_event(stack: str, logical_id: str, status: str, reason: str = "", physical_id: str = "x") -> StackEvent:
    kind = "AWS::CloudFormation::Stack" if physical_id.startswith("arn:nested") else "AWS::EC2::Instance"
    return StackEvent("2026-11-21T08:00:00.000Z", stack, logical_id, physical_id, kind, status, reason)


def test_the_events_of_nested_stacks_are_in_the_report() -> None:
    api = FakeApi()
    api.outcomes["CREATE_IN_PROGRESS"] = "ROLLBACK_IN_PROGRESS"
    api.events = (stack_event("arn:top", "Queues", "CREATE_FAILED", "Embedded stack failed", "arn:nested/queues"),)
    nested = (
        stack_event("arn:nested/queues", "Queue", "CREATE_FAILED", "Resource creation cancelled"),
        stack_event("arn:nested/queues", "LaunchTemplate", "CREATE_FAILED", "InvalidParameter: it is wrong"),
    )
    verdict = Machine(api, FakeAws(nested={"arn:nested/queues": nested})).run(events.create())
    lines = verdict.reason.splitlines()
    outer = next(number for number, line in enumerate(lines) if "Embedded stack failed" in line)
    assert "LaunchTemplate" in lines[outer + 1] and "it is wrong" in lines[outer + 1]
    assert "cancelled" not in verdict.reason

"""Deletion: only what is ours, to the end, and gone is gone."""

import pytest

from cluster_resource.api import ApiAccessError, ApiError, ApiUnknownError, StackEvent
from tests.cluster_resource import events
from tests.cluster_resource.events import Machine, own_id, properties
from tests.cluster_resource.fake_api import FakeApi, foreign, owned


@pytest.mark.parametrize(
    "stack_status",
    ["CREATE_COMPLETE", "CREATE_IN_PROGRESS", "ROLLBACK_COMPLETE", "UPDATE_ROLLBACK_FAILED", "DELETE_FAILED"],
)
def test_a_cluster_of_ours_is_deleted_and_waited_for(stack_status: str) -> None:
    api = FakeApi(owned(stack_status))
    verdict = Machine(api).run(events.delete())
    assert (verdict.status, verdict.physical_id, verdict.data) == ("SUCCESS", own_id("local"), {})
    assert api.changing == [("delete", "local")]
    assert api.clusters == {}


def test_a_cluster_that_is_being_deleted_is_only_waited_for() -> None:
    api = FakeApi(owned("DELETE_IN_PROGRESS"))
    assert Machine(api).run(events.delete()).status == "SUCCESS"
    assert api.changing == []


@pytest.mark.parametrize("stack_status", ["UPDATE_IN_PROGRESS", "UPDATE_ROLLBACK_IN_PROGRESS", "ROLLBACK_IN_PROGRESS"])
def test_it_waits_for_an_operation_that_no_deletion_may_interrupt(stack_status: str) -> None:
    api = FakeApi(owned(stack_status))
    assert Machine(api).run(events.delete()).status == "SUCCESS"
    assert api.requests[:3] == [("describe", "local"), ("describe", "local"), ("delete", "local")]


def test_gone_is_deleted() -> None:
    api = FakeApi()
    assert Machine(api).run(events.delete()).status == "SUCCESS"
    assert api.changing == []


def test_gone_between_look_and_call_is_deleted() -> None:
    api = FakeApi(owned())
    api.outcomes["CREATE_COMPLETE"] = "CREATE_COMPLETE"
    api.faults["delete"] = [(ApiError(404, "Cluster 'local' does not exist."), True)]
    assert Machine(api).run(events.delete()).status == "SUCCESS"


@pytest.mark.parametrize("physical_id", [own_id("local"), "local-cluster-ParallelCluster-1ABCDEF"])
def test_a_cluster_of_another_owner_is_left_alone(physical_id: str) -> None:
    api = FakeApi(foreign("local"))
    assert Machine(api).run(events.delete(physical_id=physical_id)).status == "SUCCESS"
    assert api.changing == []


def test_what_was_never_created_needs_no_api_and_no_sound_properties() -> None:
    api = FakeApi(owned())
    verdict = Machine(api).run(events.delete({"ClusterName": "local"}, physical_id="not-created/local"))
    assert (verdict.status, verdict.physical_id) == ("SUCCESS", "not-created/local")
    assert api.requests == []


def test_under_an_id_that_cloudformation_invented_our_cluster_is_found_by_name_and_tag() -> None:
    api = FakeApi(owned())
    assert Machine(api).run(events.delete(physical_id="local-cluster-ParallelCluster-1ABCDEF")).status == "SUCCESS"
    assert api.clusters == {}


def test_a_deletion_that_fails_is_reported_with_what_holds_it() -> None:
    api = FakeApi(owned())
    api.outcomes["DELETE_IN_PROGRESS"] = "DELETE_FAILED"
    api.events = (
        StackEvent("09:00", "arn:stack", "Group", "sg-1", "AWS::EC2::SecurityGroup", "DELETE_FAILED", "is in use"),
    )
    verdict = Machine(api).run(events.delete())
    assert (verdict.status, verdict.physical_id) == ("FAILED", own_id("local"))
    assert "Group (AWS::EC2::SecurityGroup) DELETE_FAILED: is in use" in verdict.reason
    assert api.changing == [("delete", "local")]


def test_a_deletion_without_clear_answer_is_looked_after() -> None:
    api = FakeApi(owned())
    api.faults["delete"] = [(ApiUnknownError("DELETE: HTTP 504"), False), (ApiUnknownError("DELETE: HTTP 504"), True)]
    assert Machine(api).run(events.delete()).status == "SUCCESS"
    assert api.changing == [("delete", "local")] * 2


def test_credentials_that_are_refused_for_a_moment_do_not_end_a_deletion() -> None:
    api = FakeApi(owned())
    api.faults["delete"] = [(ApiAccessError("refused"), False)] * 2
    assert Machine(api).run(events.delete()).status == "SUCCESS"


def test_past_the_deadline_a_deletion_is_no_success() -> None:
    api = FakeApi(owned())
    api.frozen = True
    verdict = Machine(api).run(events.delete(properties(TimeoutMinutes="5")))
    assert verdict.status == "FAILED" and "Last seen: DELETE_IN_PROGRESS" in verdict.reason

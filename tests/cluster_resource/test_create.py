"""Creation: made once, owned, followed to the end; nothing of others touched."""

import json
from typing import Any

import pytest

from cluster_resource.api import OWNER_TAG, ApiAccessError, ApiError, ApiUnknownError, Message, StackEvent
from tests.cluster_resource import events
from tests.cluster_resource.events import OWNER, Machine, own_id, properties
from tests.cluster_resource.fake_api import FakeApi, foreign, owned

LOST = ApiUnknownError("POST /v3/clusters: HTTP 504: Endpoint request timed out")


def test_a_cluster_is_created_with_types_restored_and_the_ownership_tag() -> None:
    api = FakeApi()
    verdict = Machine(api).run(events.create())
    assert (verdict.status, verdict.physical_id) == ("SUCCESS", own_id("local"))
    assert api.changing == [("create", "local")]
    sent = json.loads(api.bodies[0])
    assert sent["Scheduling"]["SlurmQueues"][0]["ComputeResources"][0]["MaxCount"] == 2
    assert sent["Tags"] == [{"Key": "team", "Value": "training"}, {"Key": OWNER_TAG, "Value": OWNER}]


def test_every_attribute_has_a_value() -> None:
    verdict = Machine(FakeApi()).run(events.create())
    assert verdict.data == {
        "ClusterName": "local",
        "HeadNodeInstanceId": "i-0123456789abcdef0",
        "HeadNodePrivateIp": "10.0.0.10",
        "StackArn": "arn:aws:cloudformation:us-east-1:123456789012:stack/local/1",
        "Status": "CREATE_COMPLETE",
        "Version": "3.16.1",
        "Execution": events.EXECUTION,
    }
    headless = owned("CREATE_COMPLETE")
    headless.head = False
    stopped = Machine(FakeApi(headless)).run(events.create())
    assert stopped.data["HeadNodeInstanceId"] == stopped.data["HeadNodePrivateIp"] == "none"


def test_a_name_that_is_taken_fails_and_touches_nothing_then_or_at_the_delete() -> None:
    api = FakeApi(foreign("local"))
    verdict = Machine(api).run(events.create())
    assert (verdict.status, verdict.physical_id) == ("FAILED", "not-created/local")
    assert "exists already" in verdict.reason and "Choose another cluster name" in verdict.reason
    assert Machine(api).run(events.delete(physical_id=verdict.physical_id)).status == "SUCCESS"
    assert api.changing == []
    assert api.clusters["local"].stack_status == "CREATE_COMPLETE"


def test_a_name_that_is_taken_between_look_and_call_fails_too() -> None:
    api = FakeApi()
    api.faults["create"] = [(ApiError(400, "Bad Request: Cluster local already exists."), False)]
    work = Machine(api)
    looks = 0
    describe = api.describe

    def taken_meanwhile(name: str) -> Any:  # noqa: ANN401
        nonlocal looks
        looks += 1
        if looks == 2:
            api.clusters["local"] = foreign("local")
        return describe(name)

    api.describe = taken_meanwhile  # type: ignore[method-assign]
    verdict = work.run(events.create())
    assert (verdict.status, verdict.physical_id) == ("FAILED", "not-created/local")
    assert api.changing == [("create", "local")]


@pytest.mark.parametrize("stack_status", ["CREATE_IN_PROGRESS", "CREATE_COMPLETE", "UPDATE_COMPLETE"])
def test_a_create_delivered_twice_goes_on_with_our_cluster(stack_status: str) -> None:
    api = FakeApi(owned(stack_status))
    verdict = Machine(api).run(events.create())
    assert (verdict.status, verdict.physical_id) == ("SUCCESS", own_id("local"))
    assert ("dry run", "local") in api.requests and api.changing == []


def test_our_cluster_with_another_configuration_is_not_taken_for_the_wanted_one() -> None:
    api = FakeApi(owned("CREATE_COMPLETE", max_count=8))
    verdict = Machine(api).run(events.create())
    assert (verdict.status, verdict.physical_id) == ("FAILED", "not-created/local")
    assert "MaxCount: now 8, asked for 2" in verdict.reason
    assert ("dry run", "local") in api.requests and api.changing == []


def test_after_a_504_it_looks_and_goes_on_with_the_cluster_that_was_accepted() -> None:
    api = FakeApi()
    api.faults["create"] = [(LOST, True)]
    verdict = Machine(api).run(events.create())
    assert (verdict.status, verdict.physical_id) == ("SUCCESS", own_id("local"))
    sent = api.requests.index(("create", "local"))
    assert api.requests[sent + 1] == ("describe", "local")
    assert ("dry run", "local") in api.requests and api.changing == [("create", "local")]


def test_after_a_504_it_looks_and_asks_again_if_there_is_no_cluster() -> None:
    api = FakeApi()
    api.faults["create"] = [(LOST, False)]
    assert Machine(api).run(events.create()).status == "SUCCESS"
    sent = api.requests.index(("create", "local"))
    assert api.requests[sent + 1] == ("describe", "local")
    assert api.changing == [("create", "local")] * 2


def test_a_create_that_never_gets_through_ends() -> None:
    api = FakeApi()
    api.faults["create"] = [(LOST, False)] * 9
    verdict = Machine(api).run(events.create())
    assert (verdict.status, verdict.physical_id) == ("FAILED", own_id("local"))
    assert api.changing == [("create", "local")] * 5
    assert "Endpoint request timed out" in verdict.reason
    assert Machine(api).run(events.delete()).status == "SUCCESS"


def test_a_failed_creation_is_reported_when_its_rollback_is_over_and_then_deleted() -> None:
    api = FakeApi()
    api.outcomes["CREATE_IN_PROGRESS"] = "ROLLBACK_IN_PROGRESS"
    stack = "arn:aws:cloudformation:us-east-1:123456789012:stack/local/1"
    api.events = (
        StackEvent(
            "08:04", stack, "HeadNode", "", "AWS::EC2::Instance", "CREATE_FAILED", "Resource creation cancelled"
        ),
        StackEvent("08:03", stack, "Wait", "", "AWS::CloudFormation::WaitCondition", "CREATE_FAILED", "script failed"),
        StackEvent("08:02", stack, "HeadNode", "", "AWS::EC2::Instance", "CREATE_IN_PROGRESS", ""),
    )
    verdict = Machine(api).run(events.create())
    assert (verdict.status, verdict.physical_id) == ("FAILED", own_id("local"))
    assert "CREATE_FAILED (ROLLBACK_COMPLETE)" in verdict.reason
    assert "OnNodeConfiguredExecutionFailure: Failed to execute OnNodeConfigured script." in verdict.reason
    assert "08:03 Wait (AWS::CloudFormation::WaitCondition) CREATE_FAILED: script failed" in verdict.reason
    assert "cancelled" not in verdict.reason
    assert "/aws/parallelcluster/local-202611210800" in verdict.reason
    assert Machine(api).run(events.delete(physical_id=verdict.physical_id)).status == "SUCCESS"
    assert api.clusters == {}


def test_validation_errors_reach_the_user_in_full_and_nothing_is_left_to_delete() -> None:
    api = FakeApi()
    error = ApiError(
        400,
        "Invalid cluster configuration.",
        messages=(
            Message("WARNING", "PlacementGroupCapacityReservationValidator", "may not start"),
            Message("ERROR", "InstanceTypeValidator", "The instance type 'p5.huge' is not supported."),
            Message("ERROR", "EfaValidator", "EFA needs a placement group decision."),
        ),
    )
    api.faults["create"] = [(error, False)]
    verdict = Machine(api).run(events.create())
    assert (verdict.status, verdict.physical_id) == ("FAILED", "not-created/local")
    lines = verdict.reason.splitlines()
    assert lines[1:4] == [
        "Invalid cluster configuration.",
        "ERROR InstanceTypeValidator: The instance type 'p5.huge' is not supported.",
        "ERROR EfaValidator: EFA needs a placement group decision.",
    ]


def test_what_an_earlier_failed_creation_of_ours_left_is_cleared_away_first() -> None:
    api = FakeApi(owned("ROLLBACK_IN_PROGRESS"))
    assert Machine(api).run(events.create()).status == "SUCCESS"
    assert api.changing == [("delete", "local"), ("create", "local")]


def test_remains_that_cannot_be_cleared_away_are_a_failure() -> None:
    api = FakeApi(owned("DELETE_FAILED"))
    api.outcomes["DELETE_IN_PROGRESS"] = "DELETE_FAILED"
    verdict = Machine(api).run(events.create())
    assert verdict.status == "FAILED" and "could not be deleted" in verdict.reason
    assert api.changing == [("delete", "local")]


def test_a_cluster_that_disappears_is_not_made_again() -> None:
    api = FakeApi()
    api.outcomes["CREATE_IN_PROGRESS"] = "DELETE_COMPLETE"
    verdict = Machine(api).run(events.create())
    assert verdict.status == "FAILED" and "disappeared" in verdict.reason
    assert api.changing == [("create", "local")]


def test_past_the_deadline_it_fails_and_says_where_the_cluster_stands() -> None:
    api = FakeApi()
    api.frozen = True
    machine = Machine(api)
    verdict = machine.run(events.create(properties(TimeoutMinutes="10")))
    assert machine.polls == 10 * 60 / events.POLL_SECONDS
    assert (verdict.status, verdict.physical_id) == ("FAILED", own_id("local"))
    assert "Last seen: CREATE_IN_PROGRESS" in verdict.reason and "raise the time limit" in verdict.reason
    api.frozen = False
    assert Machine(api).run(events.delete()).status == "SUCCESS"
    assert api.clusters == {}


def test_an_api_of_another_version_is_a_clear_failure() -> None:
    api = FakeApi()
    api.version = "3.15.0"
    verdict = Machine(api).run(events.create())
    assert (verdict.status, verdict.physical_id) == ("FAILED", own_id("local"))
    assert "3.15.0" in verdict.reason and "3.16.1" in verdict.reason


def test_a_region_that_the_api_does_not_serve_is_a_clear_failure() -> None:
    api = FakeApi()
    message = "Bad Request: region is set in both parameter and configuration and conflicts."
    api.faults["create"] = [(ApiError(400, message), False)]
    verdict = Machine(api).run(events.create())
    assert verdict.status == "FAILED" and message in verdict.reason


def test_a_look_that_fails_is_repeated_while_the_cluster_goes_on() -> None:
    api = FakeApi()
    assert api.describe("local") is None
    api.faults["describe"] = [
        (ApiUnknownError("GET: HTTP 500: Throttling"), True),
        (ApiError(429, "Too Many Requests"), True),
    ]
    assert Machine(api).run(events.create()).status == "SUCCESS"
    assert api.changing == [("create", "local")]


def test_a_role_that_is_not_known_yet_gets_time_and_a_refused_one_a_clear_failure() -> None:
    api = FakeApi()
    denied = ApiAccessError("the role cannot be assumed: AccessDenied")
    api.faults["describe"] = [(denied, True)] * 3
    assert Machine(api).run(events.create()).status == "SUCCESS"
    api = FakeApi()
    api.faults["describe"] = [(denied, True)] * 100
    machine = Machine(api)
    verdict = machine.run(events.create())
    assert (verdict.status, verdict.physical_id) == ("FAILED", "not-created/local")
    assert machine.polls < 10 and "may assume" in verdict.reason

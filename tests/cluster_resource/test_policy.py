"""What an update may do to the fleet, to jobs, to the cluster: only what its environment allows."""

from typing import Any

import pytest

from cluster_resource.api import ApiError, ApiUnknownError, Change
from cluster_resource.request import Policy, Request
from tests.cluster_resource import events
from tests.cluster_resource.events import FakeAws, Machine, own_id, properties, rolling_back, text_of
from tests.cluster_resource.fake_api import MAX_COUNT, FakeApi, owned

SMALL, LARGE = properties(max_count=2), properties(max_count=4)


def allowed(wanted: dict[str, Any], **updates: str) -> dict[str, Any]:
    return {**wanted, "Updates": updates}


def on_another_os(wanted: dict[str, Any]) -> dict[str, Any]:
    return {**wanted, "Configuration": {**wanted["Configuration"], "Image": {"Os": "ubuntu2404"}}}


def test_a_smaller_fleet_is_refused_with_key_policy_and_remedies_and_nothing_is_stopped() -> None:
    api = FakeApi(owned(max_count=4))
    machine = Machine(api)
    verdict = machine.run(events.update(SMALL, LARGE))
    assert (verdict.status, verdict.physical_id) == ("FAILED", own_id("local"))
    assert f"{MAX_COUNT}: now 4, asked for 2 (needs the compute fleet stopped)" in verdict.reason
    for remedy in ("cluster.updates.stop_fleet: when-needed", "cluster.slurm.queue_update: TERMINATE"):
        assert remedy in verdict.reason
    assert api.changing == [] and machine.polls == 0


def test_with_permission_the_fleet_is_stopped_updated_and_started_again() -> None:
    api = FakeApi(owned(max_count=4))
    verdict = Machine(api).run(events.update(allowed(SMALL, StopFleet="when-needed"), LARGE))
    assert verdict.status == "SUCCESS"
    assert api.changing == [("stop", "local"), ("update", "local"), ("start", "local")]
    assert api.clusters["local"].fleet == "RUNNING"
    assert api.clusters["local"].configuration == text_of(SMALL)


@pytest.mark.parametrize("fault", ["refused", "rolled back"])
def test_the_fleet_is_started_again_after_a_failure(fault: str) -> None:
    api = FakeApi(owned(max_count=4))
    if fault == "refused":
        api.faults["update"] = [(ApiError(400, "Bad Request: no."), False)]
    else:
        api.outcomes["UPDATE_IN_PROGRESS"] = "UPDATE_ROLLBACK_IN_PROGRESS"
    verdict = Machine(api).run(events.update(allowed(SMALL, StopFleet="when-needed"), LARGE))
    assert verdict.status == "FAILED" and "its start was requested again" in verdict.reason
    assert api.changing[-1] == ("start", "local")


def test_a_fleet_that_cannot_be_started_again_is_said() -> None:
    api = FakeApi(owned(max_count=4))
    api.faults["update"] = [(ApiError(400, "Bad Request: no."), False)]
    api.faults["request_fleet"] = [(ApiUnknownError("HTTP 500"), True), (ApiUnknownError("PATCH: HTTP 500"), False)]
    verdict = Machine(api).run(events.update(allowed(SMALL, StopFleet="when-needed"), LARGE))
    assert verdict.status == "FAILED" and "could not be started again: PATCH: HTTP 500" in verdict.reason


@pytest.mark.parametrize(("jobs", "said"), [(3, "3 jobs run"), (1, "1 job runs"), (None, "could not be found out")])
def test_running_jobs_are_protected_unless_the_environment_says_otherwise(jobs: int | None, said: str) -> None:
    update = events.update(allowed(SMALL, StopFleet="when-needed"), LARGE)
    api = FakeApi(owned(max_count=4, compute_nodes=2))
    verdict = Machine(api, FakeAws(jobs=jobs)).run(update)
    assert verdict.status == "FAILED" and said in verdict.reason and "running_jobs: may-be-killed" in verdict.reason
    assert api.changing == []
    killing = events.update(allowed(SMALL, StopFleet="when-needed", RunningJobs="may-be-killed"), LARGE)
    assert Machine(api, FakeAws(jobs=jobs)).run(killing).status == "SUCCESS"


def test_nodes_without_jobs_do_not_stand_in_the_way() -> None:
    api = FakeApi(owned(max_count=4, compute_nodes=2))
    update = events.update(allowed(SMALL, StopFleet="when-needed"), LARGE)
    assert Machine(api, FakeAws(jobs=0)).run(update).status == "SUCCESS"


def terminating(max_count: int) -> dict[str, Any]:
    wanted = properties(max_count=max_count)
    wanted["Configuration"]["Scheduling"]["SlurmSettings"] = {"QueueUpdateStrategy": "TERMINATE"}
    return wanted


def test_terminate_ends_nodes_so_jobs_are_counted() -> None:
    api = FakeApi(owned(max_count=4, compute_nodes=1))
    refused = Machine(api, FakeAws(jobs=1)).run(events.update(terminating(2), LARGE))
    assert refused.status == "FAILED" and f"TERMINATE ends the nodes behind {MAX_COUNT}" in refused.reason
    assert Machine(api, FakeAws(jobs=0)).run(events.update(terminating(2), LARGE)).status == "SUCCESS"
    assert api.changing == [("update", "local")]


def test_terminate_that_only_adds_nodes_ends_none() -> None:
    api = FakeApi(owned(max_count=2, compute_nodes=1))
    assert Machine(api, FakeAws(jobs=1)).run(events.update(terminating(8), SMALL)).status == "SUCCESS"


def test_a_key_that_can_never_change_replaces_the_cluster_only_with_permission() -> None:
    api = FakeApi(owned(max_count=2))
    wanted = on_another_os(SMALL)
    assert Machine(api).run(events.update(wanted, SMALL)).status == "FAILED"
    assert api.changing == []
    verdict = Machine(api).run(events.update(allowed(wanted, Replace="when-needed"), SMALL))
    assert (verdict.status, verdict.physical_id) == ("SUCCESS", own_id("local"))
    assert api.changing == [("delete", "local"), ("create", "local")]


def test_a_cluster_is_not_deleted_for_one_that_cannot_be_made() -> None:
    api = FakeApi(owned(max_count=2))
    wanted = allowed(on_another_os(SMALL), Replace="when-needed")
    api.faults["create"] = [(ApiError(400, "Invalid cluster configuration: no such key pair"), False)]
    verdict = Machine(api).run(events.update(wanted, SMALL))
    assert verdict.status == "FAILED" and "no such key pair" in verdict.reason
    assert api.changing == []


def test_replacing_counts_jobs_first() -> None:
    api = FakeApi(owned(max_count=2, compute_nodes=1))
    wanted = allowed(on_another_os(SMALL), Replace="when-needed")
    verdict = Machine(api, FakeAws(jobs=2)).run(events.update(wanted, SMALL))
    assert verdict.status == "FAILED" and "has to be replaced, and 2 jobs run" in verdict.reason
    assert api.changing == []


def test_what_a_stopped_fleet_would_allow_does_not_replace_the_cluster() -> None:
    api = FakeApi(owned(max_count=4))
    verdict = Machine(api).run(events.update(allowed(SMALL, Replace="when-needed"), LARGE))
    assert verdict.status == "FAILED" and api.changing == []


def test_another_version_is_replaced_with_permission() -> None:
    api = FakeApi(owned(max_count=2, version="3.15.0"))
    refused = Machine(api).run(events.update(LARGE, SMALL))
    assert "docs/cluster-updates.md" in refused.reason and api.changing == []
    assert Machine(api).run(events.update(allowed(LARGE, Replace="when-needed"), SMALL)).status == "SUCCESS"
    assert api.clusters["local"].version == "3.16.1"


def test_the_rollback_of_a_failed_replacement_makes_the_former_cluster_again() -> None:
    api = FakeApi(owned(max_count=2))
    wanted = allowed(on_another_os(SMALL), Replace="when-needed")
    api.outcomes["CREATE_IN_PROGRESS"] = "ROLLBACK_IN_PROGRESS"
    assert Machine(api).run(events.update(wanted, SMALL)).status == "FAILED"
    api.outcomes.clear()
    assert rolling_back(api).run(events.update(SMALL, wanted)).status == "SUCCESS"
    assert api.clusters["local"].configuration == text_of(SMALL)


def test_a_rollback_may_stop_an_idle_fleet_to_get_back() -> None:
    api = FakeApi(owned(max_count=4))
    assert rolling_back(api).run(events.update(SMALL, LARGE)).status == "SUCCESS"
    assert api.changing == [("stop", "local"), ("update", "local"), ("start", "local")]


def test_a_rollback_waits_for_running_jobs_and_fails_with_the_way_on_if_they_do_not_end() -> None:
    api = FakeApi(owned(max_count=4, compute_nodes=1))
    waiting = rolling_back(api, jobs=1)
    verdict = waiting.run(events.update(SMALL, LARGE))
    assert verdict.status == "FAILED" and "the rollback waits for their end" in verdict.reason
    assert waiting.polls == 55 * 4 and api.changing == []


def test_a_rollback_does_not_guess_where_nobody_can_count_the_jobs() -> None:
    api = FakeApi(owned(max_count=4, compute_nodes=1))
    verdict = rolling_back(api, jobs=None).run(events.update(SMALL, LARGE))
    assert verdict.status == "FAILED" and api.changing == []


def test_a_rollback_may_do_what_the_update_was_allowed_to_do() -> None:
    event = events.update(SMALL, allowed(LARGE, RunningJobs="may-be-killed", Replace="when-needed"))
    assert Request.of(event).policy(rollback=True) == Policy(replace=True, kill_jobs=True, rollback=True)
    assert Request.of(event).policy(rollback=False) == Policy()


def test_a_rollback_undoes_a_cluster_that_the_update_made_in_place_of_a_lost_one() -> None:
    """It has another value of a key that never changes in place, so no update can have brought it there."""
    api = FakeApi(owned(max_count=2))
    api.clusters["local"].configuration = text_of(on_another_os(SMALL))
    assert rolling_back(api).run(events.update(SMALL, on_another_os(SMALL))).status == "SUCCESS"
    assert api.changing == [("delete", "local"), ("create", "local")]


def test_a_rollback_replaces_no_cluster_for_a_refusal_of_another_kind() -> None:
    api = FakeApi(owned(max_count=4))
    login = Change("SharedStorage", "-", "-", "All login nodes must be stopped. Stop the login nodes by setting Count.")
    api.faults["dry run"] = [(ApiError(400, "Update failure", refused=(login,)), False)]
    verdict = rolling_back(api).run(events.update(SMALL, LARGE))
    assert verdict.status == "FAILED" and api.changing == []

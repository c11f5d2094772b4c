"""Updates, renames, and the rollbacks that CloudFormation makes of them."""

import pytest

from cluster_resource.api import ApiError, ApiUnknownError
from tests.cluster_resource import events
from tests.cluster_resource.events import Machine, own_id, properties, text_of
from tests.cluster_resource.fake_api import FakeApi, foreign, owned

SMALL, LARGE = properties(max_count=2), properties(max_count=4)


def test_an_update_is_made_once_and_followed_to_its_end() -> None:
    api = FakeApi(owned())
    verdict = Machine(api).run(events.update(LARGE, SMALL))
    assert (verdict.status, verdict.physical_id) == ("SUCCESS", own_id("local"))
    assert verdict.data["Status"] == "UPDATE_COMPLETE"
    assert api.changing == [("update", "local")]


def test_new_assets_alone_leave_the_cluster_untouched() -> None:
    api = FakeApi(owned())
    verdict = Machine(api).run(events.update(properties(AssetsVersion="2"), SMALL))
    assert verdict.status == "SUCCESS"
    assert api.changing == []


def test_no_changes_found_is_success() -> None:
    api = FakeApi(owned("UPDATE_COMPLETE", max_count=4))
    assert Machine(api).run(events.update(LARGE, SMALL)).status == "SUCCESS"
    assert api.changing == []


def test_a_failed_update_is_reported_and_its_rollback_update_succeeds() -> None:
    api = FakeApi(owned())
    api.outcomes["UPDATE_IN_PROGRESS"] = "UPDATE_ROLLBACK_IN_PROGRESS"
    failed = Machine(api).run(events.update(LARGE, SMALL))
    assert (failed.status, failed.physical_id) == ("FAILED", own_id("local"))
    assert "UPDATE_FAILED (UPDATE_ROLLBACK_COMPLETE)" in failed.reason
    assert "runs with its former configuration" in failed.reason
    rolled_back = Machine(api).run(events.update(SMALL, LARGE))
    assert rolled_back.status == "SUCCESS"
    assert api.clusters["local"].stack_status == "UPDATE_ROLLBACK_COMPLETE"


def test_new_assets_after_a_rolled_back_update_succeed_too() -> None:
    api = FakeApi(owned("UPDATE_ROLLBACK_COMPLETE"))
    assert Machine(api).run(events.update(properties(AssetsVersion="2"), SMALL)).status == "SUCCESS"
    # Whether the former configuration is the wanted one is for the API to say.
    assert ("dry run", "local") in api.requests and api.changing == []


def test_no_changes_is_no_success_where_the_cluster_is_half_updated() -> None:
    api = FakeApi(owned("UPDATE_FAILED"))
    verdict = Machine(api).run(events.update(properties(AssetsVersion="2"), SMALL))
    assert verdict.status == "FAILED" and "has the wanted configuration, but is UPDATE_FAILED" in verdict.reason


def test_a_cluster_whose_rollback_failed_says_what_to_do() -> None:
    api = FakeApi(owned("UPDATE_ROLLBACK_FAILED"))
    verdict = Machine(api).run(events.update(LARGE, SMALL))
    assert verdict.status == "FAILED" and "continue-update-rollback --stack-name arn:" in verdict.reason
    assert api.changing == []


def test_a_key_that_can_never_change_points_to_replacement() -> None:
    api = FakeApi(owned())
    wanted = properties()
    wanted["Configuration"]["Image"]["Os"] = "ubuntu2404"
    verdict = Machine(api).run(events.update(wanted, SMALL))
    assert "Image.Os: now alinux2023, asked for ubuntu2404 (can never change in place)" in verdict.reason
    assert "cluster.updates.replace: when-needed" in verdict.reason and api.changing == []
    assert "giving it another name" in verdict.reason


def test_it_waits_for_whatever_is_in_progress_before_it_updates() -> None:
    api = FakeApi(owned("UPDATE_IN_PROGRESS"))
    api.faults["update"] = [
        (ApiError(409, "Cannot execute update while stack is in UPDATE_IN_PROGRESS status."), False)
    ]
    assert Machine(api).run(events.update(LARGE, SMALL)).status == "SUCCESS"
    assert api.requests[:2] == [("describe", "local"), ("describe", "local")]
    assert api.changing == [("update", "local")] * 2


def test_a_conflict_that_never_ends_fails_at_the_deadline() -> None:
    api = FakeApi(owned())
    api.faults["update"] = [(ApiError(409, "Cannot execute update."), False)] * 999
    verdict = Machine(api).run(events.update(properties(max_count=4, TimeoutMinutes="5"), SMALL))
    assert verdict.status == "FAILED" and "Last seen: CREATE_COMPLETE" in verdict.reason


@pytest.mark.parametrize("accepted", [True, False])
def test_a_504_leads_to_a_look_and_never_to_a_false_verdict(accepted: bool) -> None:
    api = FakeApi(owned())
    api.faults["update"] = [(ApiUnknownError("PUT: HTTP 504"), accepted)]
    verdict = Machine(api).run(events.update(LARGE, SMALL))
    assert verdict.status == "SUCCESS"
    assert api.clusters["local"].configuration == text_of(LARGE)
    sent = api.requests.index(("update", "local"))
    assert api.requests[sent + 1] == ("describe", "local")


def test_an_update_that_always_ends_in_a_500_ends() -> None:
    api = FakeApi(owned())
    api.faults["update"] = [(ApiUnknownError("PUT: HTTP 500: Unexpected fatal exception"), False)] * 99
    verdict = Machine(api).run(events.update(LARGE, SMALL))
    assert verdict.status == "FAILED" and "5 attempts" in verdict.reason and "Unexpected fatal" in verdict.reason


def test_a_cluster_that_is_not_ours_is_not_updated() -> None:
    api = FakeApi(foreign("local"))
    verdict = Machine(api).run(events.update(LARGE, SMALL))
    assert verdict.status == "FAILED" and "does not belong" in verdict.reason
    assert api.changing == []


def test_a_cluster_that_was_deleted_by_somebody_else_is_created_anew() -> None:
    api = FakeApi()
    verdict = Machine(api).run(events.update(properties(AssetsVersion="2"), SMALL))
    assert (verdict.status, verdict.physical_id) == ("SUCCESS", own_id("local"))
    assert api.changing == [("create", "local")]


@pytest.mark.parametrize("stack_status", ["ROLLBACK_COMPLETE", "DELETE_FAILED", "DELETE_IN_PROGRESS"])
def test_of_a_cluster_that_does_not_live_the_remains_go_and_it_is_created_anew(stack_status: str) -> None:
    api = FakeApi(owned(stack_status))
    verdict = Machine(api).run(events.update(LARGE, SMALL))
    assert (verdict.status, verdict.physical_id) == ("SUCCESS", own_id("local"))
    deletions = [] if stack_status == "DELETE_IN_PROGRESS" else [("delete", "local")]
    assert api.changing == [*deletions, ("create", "local")]


def test_a_cluster_of_another_version_is_not_updated() -> None:
    old = owned()
    old.version = "3.15.0"
    api = FakeApi(old)
    verdict = Machine(api).run(events.update(LARGE, SMALL))
    assert verdict.status == "FAILED" and "3.15.0" in verdict.reason
    assert api.changing == []


def test_an_update_past_the_deadline_fails_although_it_may_yet_succeed() -> None:
    api = FakeApi(owned())
    api.frozen = True
    verdict = Machine(api).run(events.update(properties(max_count=4, TimeoutMinutes="5"), SMALL))
    assert (verdict.status, verdict.physical_id) == ("FAILED", own_id("local"))
    assert "Last seen: UPDATE_IN_PROGRESS" in verdict.reason


def test_a_rename_makes_a_new_cluster_and_cloudformation_deletes_the_old_one() -> None:
    api = FakeApi(owned(name="old"))
    verdict = Machine(api).run(events.update(properties("new"), properties("old")))
    assert (verdict.status, verdict.physical_id) == ("SUCCESS", own_id("new"))
    assert api.changing == [("create", "new")]
    # The properties of this Delete do not matter: its physical id names the cluster.
    cleanup = events.delete(properties("new"), physical_id=own_id("old"))
    assert Machine(api).run(cleanup).status == "SUCCESS"
    assert list(api.clusters) == ["new"]


def test_a_rename_to_a_name_that_is_taken_keeps_both_clusters() -> None:
    api = FakeApi(owned(name="old"), foreign("new"))
    verdict = Machine(api).run(events.update(properties("new"), properties("old")))
    assert (verdict.status, verdict.physical_id) == ("FAILED", own_id("old"))
    rolled_back = Machine(api).run(events.update(properties("old"), properties("new"), own_id("old")))
    assert (rolled_back.status, rolled_back.physical_id) == ("SUCCESS", own_id("old"))
    assert sorted(api.clusters) == ["new", "old"]
    assert ("delete", "new") not in api.requests


def test_the_rollback_of_a_failed_rename_deletes_what_the_rename_left() -> None:
    api = FakeApi(owned(name="old"))
    api.outcomes["CREATE_IN_PROGRESS"] = "ROLLBACK_IN_PROGRESS"
    failed = Machine(api).run(events.update(properties("new"), properties("old")))
    assert (failed.status, failed.physical_id) == ("FAILED", own_id("old"))
    rolled_back = Machine(api).run(events.update(properties("old"), properties("new"), own_id("old")))
    assert (rolled_back.status, rolled_back.physical_id) == ("SUCCESS", own_id("old"))
    assert [request for request in api.changing if request[0] == "delete"] == [("delete", "new")]


def test_a_leftover_that_cannot_be_deleted_at_once_is_tried_again() -> None:
    api = FakeApi(owned(name="old"), owned(name="new"))
    api.faults["delete"] = [
        (ApiUnknownError("ConnectionResetError"), False),
        (ApiError(429, "Too Many Requests"), False),
    ]
    rolled_back = Machine(api).run(events.update(properties("old"), properties("new"), own_id("old")))
    assert (rolled_back.status, rolled_back.physical_id) == ("SUCCESS", own_id("old"))
    assert api.changing == [("delete", "new")] * 3
    assert api.clusters["new"].stack_status == "DELETE_IN_PROGRESS"


def test_a_leftover_that_cannot_be_deleted_at_all_is_named_in_the_answer() -> None:
    api = FakeApi(owned(name="old"), owned(name="new"))
    api.faults["delete"] = [(ApiError(400, "no"), False)] * 20
    rolled_back = Machine(api).run(events.update(properties("old"), properties("new"), own_id("old")))
    assert (rolled_back.status, rolled_back.physical_id) == ("SUCCESS", own_id("old"))
    assert "cluster new, left by a failed rename, could not be deleted" in rolled_back.reason


def test_the_rollback_of_a_successful_rename_returns_to_the_old_cluster() -> None:
    api = FakeApi(owned(name="old"), owned(name="new"))
    verdict = Machine(api).run(events.update(properties("old"), properties("new"), own_id("new")))
    assert (verdict.status, verdict.physical_id) == ("SUCCESS", own_id("old"))
    assert ("dry run", "old") in api.requests and api.changing == []


def test_an_id_that_cloudformation_invented_does_not_turn_a_live_cluster_into_a_leftover() -> None:
    api = FakeApi(owned(name="old"))
    verdict = Machine(api).run(events.update(properties("new"), properties("old"), "local-cluster-1ABCDEF"))
    assert (verdict.status, verdict.physical_id) == ("SUCCESS", own_id("new"))
    assert ("delete", "old") not in api.requests

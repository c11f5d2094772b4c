"""A cluster beside the one that takes over from it: a version change, blue beside green on the same file systems.

The two are resources of their own in one stack, and so have different logical ids, ids and owners.
"""

from typing import Any

from tests.cluster_resource import events
from tests.cluster_resource.events import FakeAws, Machine, own_id, properties, rolling_back
from tests.cluster_resource.fake_api import Cluster, FakeApi, foreign, owned

BEFORE = properties(max_count=2)


def frozen(**others: Any) -> dict[str, Any]:  # noqa: ANN401 - properties
    """What the stack says of blue while green is the cluster: green's settings and version, and that it is kept."""
    return {**properties(max_count=8, ApiVersion="3.17.0"), "Frozen": "true", **others}


def newer_api(*clusters: Cluster) -> FakeApi:
    api = FakeApi(*clusters)
    api.version = api.told_version = "3.17.0"
    return api


def test_the_predecessor_is_looked_at_and_left_as_it_is() -> None:
    api = newer_api(owned("UPDATE_COMPLETE"))
    api.clusters["local"].fleet = "STOPPED"
    verdict = Machine(api).run(events.update(frozen(), BEFORE))
    assert (verdict.status, verdict.physical_id) == ("SUCCESS", own_id("local"))
    assert verdict.data["Version"] == "3.16.1" and "left as it is" in verdict.reason
    assert {call for call, _ in api.requests} == {"describe"}


def test_a_stack_that_is_rolled_back_takes_the_predecessor_as_it_was() -> None:
    api = newer_api(owned("UPDATE_COMPLETE"))
    assert rolling_back(api).run(events.update(BEFORE, frozen())).status == "SUCCESS"
    assert api.changing == []


def test_going_back_to_it_for_good_applies_what_has_changed() -> None:
    api = FakeApi(owned("UPDATE_COMPLETE"))
    assert Machine(api).run(events.update(properties(max_count=4), frozen())).status == "SUCCESS"
    assert api.changing == [("update", "local")]


def test_taking_the_predecessor_out_deletes_it() -> None:
    api = newer_api(owned("UPDATE_COMPLETE"))
    assert Machine(api, FakeAws(stack="UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")).run(events.delete(frozen())).status
    assert api.clusters == {}


def test_a_predecessor_that_never_was_is_a_failure_and_makes_nothing() -> None:
    for api in (newer_api(), newer_api(foreign("local"))):
        verdict = Machine(api).run(events.create(frozen()))
        assert (verdict.status, verdict.physical_id) == ("FAILED", "not-created/local")
        assert "cluster.predecessor" in verdict.reason and api.changing == []


def test_a_predecessor_that_is_gone_is_not_made_again() -> None:
    api = newer_api()
    verdict = Machine(api).run(events.update(frozen(), BEFORE))
    assert verdict.status == "SUCCESS" and "nothing was made" in verdict.reason
    assert verdict.data["HeadNodeInstanceId"] == "none" and api.changing == []

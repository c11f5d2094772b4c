"""The cases of aws/aws-parallelcluster's own integration tests of its custom resource, under their names.

Source: tests/integration-tests/tests/custom_resource/test_cluster_custom_resource.py there. `test_cluster_1_click` is
about their template; `make up` is its like here.
"""

from typing import Any

import pytest

from cluster_resource.api import OWNER_TAG, Accepted, ApiError, Message
from cluster_resource.reconcile import Clients, begin
from cluster_resource.request import Request
from tests.cluster_resource import events
from tests.cluster_resource.events import OWNER, STARTED, FakeAws, Machine, own_id, properties, text_of
from tests.cluster_resource.fake_api import MAX_COUNT, Cluster, FakeApi, owned
from tests.cluster_resource.replay import Receiver

BEFORE = properties(max_count=16)


def test_cluster_create(caplog: pytest.LogCaptureFixture) -> None:
    """Warnings of the validators are told, and the head node's address is an attribute."""
    api = FakeApi()
    create = api.create

    def with_a_warning(name: str, configuration: str, *, dry_run: bool = False) -> Accepted:
        accepted = create(name, configuration, dry_run=dry_run)
        return Accepted(accepted.version, (Message("WARNING", "KeyPairValidator", "No SSH key"),))

    api.create = with_a_warning  # type: ignore[method-assign]
    verdict = Machine(api).run(events.create())
    assert verdict.status == "SUCCESS" and verdict.data["HeadNodePrivateIp"] == "10.0.0.10"
    assert "KeyPairValidator" in caplog.text


def test_cluster_create_invalid_name(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    from cluster_resource import work

    api = FakeApi()
    monkeypatch.setattr(work, "_clients", lambda: Clients(lambda _: api, FakeAws()))
    event = {**events.create({**properties(), "ClusterName": "0"}), "ResponseURL": receiver.url}
    item = work.handler({"step": "begin", "work": {"event": event, "started": STARTED}}, None)
    work.handler({"step": "answer", "work": item}, None)
    body = receiver.received[0][1]
    assert body["Status"] == "FAILED" and "ClusterName is '0'" in body["Reason"] and api.requests == []


def test_cluster_create_invalid_script() -> None:
    """A head node that cannot fetch its script fails the creation, with the failure's own code."""
    api = FakeApi()
    api.outcomes["CREATE_IN_PROGRESS"] = "ROLLBACK_IN_PROGRESS"
    verdict = Machine(api).run(events.create())
    assert verdict.status == "FAILED"
    assert "OnNodeConfiguredExecutionFailure: Failed to execute OnNodeConfigured script." in verdict.reason


@pytest.mark.parametrize("external_update", [False, True])
def test_cluster_update(external_update: bool) -> None:
    api = FakeApi(owned(max_count=16))
    larger = properties(max_count=17)
    if external_update:
        api.clusters["local"].configuration = text_of(larger)
        api.clusters["local"].stack_status = "UPDATE_COMPLETE"
    verdict = Machine(api).run(events.update(larger, BEFORE))
    assert verdict.status == "SUCCESS" and verdict.data["Status"] == "UPDATE_COMPLETE"
    assert verdict.data["HeadNodePrivateIp"] == "10.0.0.10"
    assert api.changing == ([] if external_update else [("update", "local")])


@pytest.mark.parametrize(
    ("wanted", "invalid", "said"),
    [
        (properties(max_count=10), "", f"{MAX_COUNT}: now 16, asked for 10 (needs the compute fleet stopped)"),
        (properties(max_count=-10), "Must be greater than or equal to 1.", "Must be greater than or equal to 1."),
        (properties(max_count=20), "s3 url 's3://invalid' is invalid.", "s3 url 's3://invalid' is invalid."),
    ],
)
def test_cluster_update_invalid(wanted: dict[str, Any], invalid: str, said: str) -> None:
    api = FakeApi(owned(max_count=16))
    api.invalid = invalid
    verdict = Machine(api).run(events.update(wanted, BEFORE))
    assert verdict.status == "FAILED" and said in verdict.reason
    assert api.changing == [] and api.clusters["local"].configuration == text_of(BEFORE)


def test_cluster_update_of_the_name() -> None:
    """There it is refused; here it makes the new cluster first and CloudFormation deletes the old one after."""
    api = FakeApi(owned(max_count=16))
    verdict = Machine(api).run(events.update(properties("other", 20), BEFORE))
    assert (verdict.status, verdict.physical_id) == ("SUCCESS", own_id("other"))
    assert sorted(api.clusters) == ["local", "other"]


@pytest.mark.parametrize("statuses", [(), ("DELETE_IN_PROGRESS",)])
def test_cluster_delete_out_of_band(statuses: tuple[str, ...]) -> None:
    api = FakeApi(*(Cluster("local", status, tags={OWNER_TAG: OWNER}) for status in statuses))
    assert Machine(api).run(events.delete()).status == "SUCCESS"
    assert api.clusters == {} and api.changing == []


def test_cluster_delete_retain() -> None:
    """CloudFormation sends no Delete for a retained resource; what stands before it must not do it in its place."""
    from cluster_resource.request import GONE_TYPE
    from tests.cluster_resource.test_hour import beside

    api = FakeApi(owned(max_count=16))
    assert Machine(api).run(beside("Delete", GONE_TYPE)).status == "SUCCESS"
    assert api.clusters["local"].stack_status == "CREATE_COMPLETE" and api.changing == []


def test_cluster_create_with_custom_policies() -> None:
    """The role that calls the API is the environment's to choose: it reaches whoever makes the client."""
    asked: list[str] = []
    api = FakeApi()

    def api_for(place: Any) -> FakeApi:  # noqa: ANN401
        asked.append(place.api_user_role_arn)
        return api

    role = "arn:aws:iam::123456789012:role/OfTheirOwn"
    begin(Request.of(events.create(properties(ApiUserRoleArn=role))), STARTED, 0.0, Clients(api_for, FakeAws()))
    assert asked == [role] and api.changing == [("create", "local")]


def test_a_tag_is_propagated_by_an_update_in_place() -> None:
    api = FakeApi(owned(max_count=16))
    tagged = properties(max_count=16)
    tagged["Configuration"]["Tags"] = [{"Key": "team", "Value": "research"}]
    assert Machine(api).run(events.update(tagged, BEFORE)).status == "SUCCESS"
    assert '"research"' in api.clusters["local"].configuration and api.changing == [("update", "local")]


def test_a_refusal_of_the_api_names_what_it_said() -> None:
    api = FakeApi()
    api.faults["create"] = [(ApiError(400, "Bad Request: 'x' does not match"), False)]
    assert "'x' does not match" in Machine(api).run(events.create()).reason

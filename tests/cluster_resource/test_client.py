"""The HTTP client against a server that replays the API's answers."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from cluster_resource.api import ApiError
from cluster_resource.client import HttpClusterApi
from tests.cluster_resource.replay import (
    CREATED,
    DESCRIBED,
    DRY_RUN,
    FORBIDDEN,
    INVALID,
    MESSAGE,
    NEWER_EVENTS,
    OLDER_EVENTS,
    STREAMS,
    Server,
)


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        ("DescribeClusterResponseContent", DESCRIBED),
        ("CreateClusterResponseContent", CREATED),
        ("CreateClusterBadRequestExceptionResponseContent", INVALID),
        ("UpdateClusterBadRequestExceptionResponseContent", FORBIDDEN),
        ("DryrunOperationExceptionResponseContent", DRY_RUN),
        ("GetClusterStackEventsResponseContent", NEWER_EVENTS),
        ("GetClusterStackEventsResponseContent", OLDER_EVENTS),
        ("ListClusterLogStreamsResponseContent", STREAMS),
        ("NotFoundExceptionResponseContent", MESSAGE),
    ],
)
def test_the_replayed_answers_have_the_shapes_of_the_genuine_api(schema: str, answer: dict[str, Any]) -> None:
    root = Path(__file__).parents[2] / "parallelcluster" / ".venv" / "lib"
    path = next(root.glob("python3*/site-packages/pcluster/api/openapi/openapi.yaml"))
    components = yaml.load(path.read_text(), yaml.CSafeLoader)["components"]
    jsonschema.validate(answer, {"$ref": f"#/components/schemas/{schema}", "components": components})
    # The schemas allow further properties; a name that they do not know would be a mistake of ours.
    assert set(answer) <= set(components["schemas"][schema]["properties"])


def test_a_cluster_is_described(server: Server, api: HttpClusterApi) -> None:
    server.answers = [(200, DESCRIBED)]
    view = api.describe("local")
    assert view is not None
    assert (view.status, view.stack_status, view.version) == ("CREATE_FAILED", "ROLLBACK_COMPLETE", "3.16.1")
    assert view.tags == {"trainyard:owner": "stack/Cluster"}
    assert (view.head_node_instance_id, view.head_node_private_ip) == ("i-0123456789abcdef0", "10.0.0.10")
    assert view.failures == (("FsxMountFailure", "Failed to mount FSX."),)
    assert server.requests[0][:3] == ("GET", "/prod/v3/clusters/local", {"region": "us-east-1"})


def test_a_cluster_without_head_node_and_failures_is_described_too(server: Server, api: HttpClusterApi) -> None:
    server.answers = [(200, {key: value for key, value in DESCRIBED.items() if key not in ("headNode", "failures")})]
    view = api.describe("local")
    assert view is not None and view.head_node_instance_id is None and view.failures == ()


def test_no_cluster_is_none(server: Server, api: HttpClusterApi) -> None:
    server.answers = [(404, MESSAGE)]
    assert api.describe("local") is None
    server.answers = [(200, {**DESCRIBED, "clusterStatus": "DELETE_COMPLETE"})]
    assert api.describe("local") is None


def test_validation_errors_come_with_the_refusal(server: Server, api: HttpClusterApi) -> None:
    server.answers = [(400, INVALID)]
    with pytest.raises(ApiError) as error:
        api.create("local", "x")
    assert error.value.messages[0].type == "ConfigSchemaValidator"
    assert error.value.message == "Bad Request: Invalid cluster configuration."


def test_a_forbidden_update_comes_with_keys_and_values(server: Server, api: HttpClusterApi) -> None:
    server.answers = [(400, FORBIDDEN)]
    with pytest.raises(ApiError) as error:
        api.update("local", "x")
    change = error.value.refused[0]
    assert (change.current, change.requested, change.message) == ("4", "2", "All compute nodes must be stopped.")
    assert server.requests[0][2] == {"region": "us-east-1", "validationFailureLevel": "ERROR"}


def test_a_dry_run_comes_with_its_change_set(server: Server, api: HttpClusterApi) -> None:
    server.answers = [(412, DRY_RUN)]
    with pytest.raises(ApiError) as error:
        api.update("local", "x", dry_run=True)
    assert error.value.http_status == 412
    assert error.value.changes[0].parameter.endswith("MaxCount")
    assert server.requests[0][2]["dryrun"] == "true"


def test_the_events_of_the_latest_operation_are_read_page_by_page(server: Server, api: HttpClusterApi) -> None:
    server.answers = [(200, NEWER_EVENTS), (200, OLDER_EVENTS)]
    assert [event.logical_id for event in api.stack_events("local")] == ["HeadNode", "local"]
    assert server.requests[1][2] == {"region": "us-east-1", "nextToken": "older/+="}


def test_the_cluster_s_log_group_is_found(server: Server, api: HttpClusterApi) -> None:
    server.answers = [(200, STREAMS)]
    assert api.log_group("local") == "/aws/parallelcluster/local-202611210800"
    server.answers = [(200, {"logStreams": []})]
    assert api.log_group("local") is None

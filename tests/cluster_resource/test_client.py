"""The HTTP client against a server that replays the API's answers."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from cluster_resource.api import ApiAccessError, ApiError, ApiUnknownError
from cluster_resource.client import HttpClusterApi, RoleSigner
from tests.cluster_resource import replay
from tests.cluster_resource.replay import DESCRIBED, DRY_RUN, MESSAGE, TokenService
from tests.stubs import Server

THROTTLED = (429, {"message": "Too Many Requests"})
TIMED_OUT = {"message": "Endpoint request timed out"}
Calls = dict[str, Callable[[HttpClusterApi], object]]
CHANGES: Calls = {
    "POST": lambda api: api.create("local", "x"),
    "PUT": lambda api: api.update("local", "x"),
    "DELETE": lambda api: api.delete("local"),
    "PATCH": lambda api: api.request_fleet("local", running=False),
}
CALLS: Calls = {**CHANGES, "GET": lambda api: api.describe("local")}


@cache
def schemas() -> dict[str, Any]:
    root = Path(__file__).parents[2] / "parallelcluster" / ".venv" / "lib"
    path = next(root.glob("python3*/site-packages/pcluster/api/openapi/openapi.yaml"))
    found: dict[str, Any] = yaml.load(path.read_text(), yaml.CSafeLoader)["components"]
    return found


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        ("DescribeCluster", DESCRIBED),
        ("CreateCluster", replay.CREATED),
        ("CreateClusterBadRequestException", replay.INVALID),
        ("UpdateClusterBadRequestException", replay.FORBIDDEN),
        ("DryrunOperationException", DRY_RUN),
        ("GetClusterStackEvents", replay.NEWER_EVENTS),
        ("GetClusterStackEvents", replay.OLDER_EVENTS),
        ("ListClusterLogStreams", replay.STREAMS),
        ("NotFoundException", MESSAGE),
        ("DescribeComputeFleet", replay.FLEET),
        ("DescribeClusterInstances", replay.FIRST_PAGE),
        ("ListOfficialImages", replay.IMAGES),
    ],
)
def test_the_replayed_answers_have_the_shapes_of_the_genuine_api(schema: str, answer: dict[str, Any]) -> None:
    name = f"{schema}ResponseContent"
    jsonschema.validate(answer, {"$ref": f"#/components/schemas/{name}", "components": schemas()})
    # The schemas allow further properties; a name that they do not know would be a mistake of ours.
    assert set(answer) <= set(schemas()["schemas"][name]["properties"])


def test_a_cluster_is_described(server: Server, api: HttpClusterApi) -> None:
    server.answers = [(200, DESCRIBED)]
    view = api.describe("local")
    assert view is not None
    assert (view.status, view.stack_status, view.version) == ("CREATE_FAILED", "ROLLBACK_COMPLETE", "3.16.1")
    assert view.tags == {"trainyard:owner": "stack/Cluster"}
    assert (view.head_node_instance_id, view.head_node_private_ip) == ("i-0123456789abcdef0", "10.0.0.10")
    assert view.failures == (("FsxMountFailure", "Failed to mount FSX."),)
    assert server.requests[0][:3] == ("GET", "/prod/v3/clusters/local", {"region": "us-east-1"})
    server.answers = [(200, {key: value for key, value in DESCRIBED.items() if key not in ("headNode", "failures")})]
    view = api.describe("local")
    assert view is not None and view.head_node_instance_id is None and view.failures == ()


@pytest.mark.parametrize("answer", [(404, MESSAGE), (200, {**DESCRIBED, "clusterStatus": "DELETE_COMPLETE"})])
def test_no_cluster_is_none(answer: tuple[int, dict[str, Any]], server: Server, api: HttpClusterApi) -> None:
    server.answers = [answer]
    assert api.describe("local") is None


def test_a_refusal_has_validation_errors_or_keys_with_values(server: Server, api: HttpClusterApi) -> None:
    server.answers = [(400, replay.INVALID), (400, replay.FORBIDDEN)]
    with pytest.raises(ApiError) as error:
        api.create("local", "x")
    assert error.value.messages[0].type == "ConfigSchemaValidator"
    assert error.value.message == "Bad Request: Invalid cluster configuration."
    with pytest.raises(ApiError) as error:
        api.update("local", "x")
    change = error.value.refused[0]
    assert (change.current, change.requested, change.message) == ("4", "2", "All compute nodes must be stopped.")
    assert server.requests[1][2] == {"region": "us-east-1", "validationFailureLevel": "ERROR"}


@pytest.mark.parametrize("method", ["create", "update"])
def test_a_dry_run_has_its_change_set(method: str, server: Server, api: HttpClusterApi) -> None:
    server.answers = [(412, DRY_RUN)]
    with pytest.raises(ApiError) as error:
        getattr(api, method)("local", "x", dry_run=True)
    assert error.value.http_status == 412
    assert error.value.changes[0].parameter.endswith("MaxCount")
    assert server.requests[0][2]["dryrun"] == "true"


def test_lists_are_read_page_by_page(server: Server, api: HttpClusterApi) -> None:
    server.answers = [(200, replay.NEWER_EVENTS), (200, replay.OLDER_EVENTS)]
    assert [event.logical_id for event in api.stack_events("local")] == ["HeadNode", "local"]
    assert server.requests[1][2] == {"region": "us-east-1", "nextToken": "older/+="}
    server.answers = [(200, replay.FIRST_PAGE), (200, replay.LAST_PAGE)]
    assert api.compute_nodes("local") == 3
    assert server.requests[3][2] == {"region": "us-east-1", "nodeType": "ComputeNode", "nextToken": "more"}


def test_log_group_and_version(server: Server, api: HttpClusterApi) -> None:
    server.answers = [(200, replay.STREAMS), (200, {"logStreams": []}), (200, replay.IMAGES), (200, {"images": []})]
    assert api.log_group("local") == "/aws/parallelcluster/local-202611210800"
    assert api.log_group("local") is None
    assert api.api_version("ubuntu2204") == "3.16.1"
    assert server.requests[2][2] == {"region": "us-east-1", "os": "ubuntu2204"}
    assert api.api_version("") is None


def test_the_fleet_is_read_started_and_stopped(server: Server, api: HttpClusterApi) -> None:
    server.answers = [(200, replay.FLEET)]
    assert api.fleet("local") == "STOPPED"
    api.request_fleet("local", running=True)
    api.request_fleet("local", running=False)
    assert [(item[0], item[1], item[4]) for item in server.requests] == [
        ("GET", "/prod/v3/clusters/local/computefleet", None),
        ("PATCH", "/prod/v3/clusters/local/computefleet", {"status": "START_REQUESTED"}),
        ("PATCH", "/prod/v3/clusters/local/computefleet", {"status": "STOP_REQUESTED"}),
    ]


@pytest.mark.parametrize("method", CALLS)
def test_throttled_calls_are_repeated(
    method: str, server: Server, api: HttpClusterApi, waits: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    server.answers = [THROTTLED, THROTTLED, (200, DESCRIBED)]
    CALLS[method](api)
    assert server.methods == [method] * 3
    assert len(waits) == 2 and waits[1] > waits[0]
    logged = f"{method} {server.requests[0][1].removeprefix('/prod')}: HTTP 429: Too Many Requests; attempt 1 of 4"
    assert logged in caplog.messages


def test_throttling_without_end_is_an_error(server: Server, api: HttpClusterApi) -> None:
    server.answers = [THROTTLED]
    with pytest.raises(ApiError, match="HTTP 429"):
        api.create("local", "x")
    assert len(server.requests) == 4


@pytest.mark.parametrize("status", [0, 500, 502, 504])
def test_only_reads_are_repeated_after_an_unclear_answer(
    status: int, server: Server, api: HttpClusterApi, caplog: pytest.LogCaptureFixture
) -> None:
    unclear = (status, b"<html>no JSON at all</html>" if status == 502 else TIMED_OUT)
    server.answers = [unclear]
    for call in CHANGES.values():
        with pytest.raises(ApiUnknownError):
            call(api)
    assert server.methods == [*CHANGES]
    server.answers = [unclear, unclear, (404, MESSAGE)]
    assert api.describe("local") is None
    assert server.methods[len(CHANGES) :] == ["GET"] * 3
    assert [text.count("GET /v3/") for text in caplog.messages if "attempt" in text] == [1, 1]


@pytest.mark.usefixtures("tokens")
def test_a_server_that_is_not_there_is_unknown_after_a_few_attempts() -> None:
    waits: list[float] = []
    url = "http://127.0.0.1:1/prod"
    api = HttpClusterApi(url, "us-east-1", RoleSigner("r", "n", url, "us-east-1"), sleep=waits.append)
    with pytest.raises(ApiUnknownError):
        api.create("local", "x")
    assert len(waits) == 3


def test_requests_are_signed_as_the_api_user_role(server: Server, tokens: TokenService, api: HttpClusterApi) -> None:
    server.answers = [(202, replay.CREATED)]
    accepted = api.create("local", "Region: us-east-1")
    assert accepted.version == "3.16.1" and accepted.messages[0].text == "The script was not found."
    method, path, query, headers, body = server.requests[0]
    assert (method, path) == ("POST", "/prod/v3/clusters")
    assert query == {"region": "us-east-1", "rollbackOnFailure": "true", "validationFailureLevel": "ERROR"}
    assert body == {"clusterName": "local", "clusterConfiguration": "Region: us-east-1"}
    authorization = headers["Authorization"]
    assert authorization.startswith("AWS4-HMAC-SHA256 Credential=AKID1/")
    assert "/us-east-1/execute-api/aws4_request" in authorization
    assert {"X-Amz-Date", "X-Amz-Security-Token"} <= set(headers)
    role = "arn:aws:iam::123456789012:role/ApiUser"
    assert tokens.assumed == [{"RoleArn": role, "RoleSessionName": "trainyard-local", "DurationSeconds": 900}]


def test_credentials_are_kept_until_shortly_before_they_expire(tokens: TokenService) -> None:
    now = datetime.now(UTC).timestamp()
    clock = [now]
    signer = RoleSigner("role", "name", "https://x", "us-east-1", clock=lambda: clock[0])
    for later, assumed in ((0, 1), (0, 1), (800, 2)):
        clock[0] = now + later
        signer.headers("GET", "https://x", None)
        assert len(tokens.assumed) == assumed


@pytest.mark.parametrize("method", CALLS)
def test_a_refused_call_is_not_repeated_and_its_credentials_are_not_used_again(
    method: str, server: Server, tokens: TokenService, api: HttpClusterApi
) -> None:
    server.answers = [(403, {"Message": "The security token included in the request is expired"}), (200, DESCRIBED)]
    with pytest.raises(ApiAccessError, match="is expired"):
        CALLS[method](api)
    assert server.methods == [method]
    CALLS[method](api)
    assert len(tokens.assumed) == 2


def test_the_signing_region_is_that_of_the_api(tokens: TokenService) -> None:
    for host, region in (("abc123.execute-api.ap-southeast-3.amazonaws.com", "ap-southeast-3"), ("x", "us-east-1")):
        signer = RoleSigner("role", "x" * 60, f"https://{host}/prod", "us-east-1")
        assert f"/{region}/execute-api/" in signer.headers("GET", f"https://{host}/prod", None)["Authorization"]
    assert len(tokens.assumed[0]["RoleSessionName"]) == 64


def test_what_is_signed_is_what_is_sent(server: Server, api: HttpClusterApi) -> None:
    """API Gateway computes the signature over what it receives; so does this test."""
    server.answers = [(200, replay.NEWER_EVENTS), (200, replay.OLDER_EVENTS)]
    api.stack_events("local")
    assert "nextToken=older%2F%2B%3D" in server.targets[1]
    for target, (method, _, _, headers, _) in zip(server.targets, server.requests, strict=True):
        signed = {name: headers[name] for name in ("X-Amz-Date", "X-Amz-Security-Token")}
        received = AWSRequest(method=method, url=f"http://{headers['Host']}{target}", headers=signed)
        received.context["timestamp"] = headers["X-Amz-Date"]
        auth = SigV4Auth(Credentials("AKID1", "secret-key", "session-token"), "execute-api", "us-east-1")
        to_sign = auth.string_to_sign(received, auth.canonical_request(received))
        assert headers["Authorization"].endswith(f"Signature={auth.signature(to_sign, received)}")

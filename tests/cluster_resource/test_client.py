"""The HTTP client against a server that replays the API's answers.

Their shapes are checked against the schema in the genuine package.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import jsonschema
import pytest
import yaml
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from cluster_resource import signing
from cluster_resource.api import ApiAccessError, ApiError, ApiUnknownError
from cluster_resource.client import HttpClusterApi
from cluster_resource.signing import RoleSigner, session_name, signing_region

STACK_ARN = "arn:aws:cloudformation:us-east-1:123456789012:stack/local/1"
TIME = "2026-11-21T08:00:00.000Z"
DESCRIBED = {
    "clusterName": "local",
    "region": "us-east-1",
    "version": "3.16.1",
    "cloudFormationStackStatus": "ROLLBACK_COMPLETE",
    "clusterStatus": "CREATE_FAILED",
    "cloudformationStackArn": STACK_ARN,
    "creationTime": TIME,
    "lastUpdatedTime": TIME,
    "clusterConfiguration": {"url": "NOT_AVAILABLE"},
    "computeFleetStatus": "UNKNOWN",
    "scheduler": {"type": "slurm"},
    "tags": [{"key": "trainyard:owner", "value": "stack/Cluster"}],
    "headNode": {
        "instanceId": "i-0123456789abcdef0",
        "instanceType": "c7i.xlarge",
        "launchTime": TIME,
        "privateIpAddress": "10.0.0.10",
        "state": "running",
    },
    "failures": [{"failureCode": "FsxMountFailure", "failureReason": "Failed to mount FSX."}],
}
SUMMARY = {
    "clusterName": "local",
    "region": "us-east-1",
    "version": "3.16.1",
    "cloudformationStackArn": STACK_ARN,
    "cloudformationStackStatus": "CREATE_IN_PROGRESS",
    "clusterStatus": "CREATE_IN_PROGRESS",
    "scheduler": {"type": "slurm"},
}
WARNING = {"level": "WARNING", "type": "UrlValidator", "message": "The script was not found."}
CREATED = {"cluster": SUMMARY, "validationMessages": [WARNING]}
INVALID = {
    "message": "Bad Request: Invalid cluster configuration.",
    "configurationValidationErrors": [
        {"level": "ERROR", "type": "ConfigSchemaValidator", "message": "[('Scheduling', ['Missing data'])]"}
    ],
}
CHANGE = {
    "parameter": "Scheduling.SlurmQueues[q].ComputeResources[c].MaxCount",
    "currentValue": "4",
    "requestedValue": "2",
}
FORBIDDEN = {
    "message": "Update failure",
    "updateValidationErrors": [{**CHANGE, "message": "All compute nodes must be stopped."}],
    "changeSet": [CHANGE],
}
DRY_RUN = {"message": "Request would have succeeded, but DryRun flag is set.", "changeSet": [CHANGE]}


def _event(logical_id: str, status: str, reason: str = "", physical_id: str = "") -> dict[str, str]:
    return {
        "stackId": STACK_ARN,
        "eventId": f"{logical_id}-{status}",
        "stackName": "local",
        "logicalResourceId": logical_id,
        "physicalResourceId": physical_id,
        "resourceType": "AWS::CloudFormation::Stack" if physical_id == STACK_ARN else "AWS::EC2::Instance",
        "timestamp": TIME,
        "resourceStatus": status,
        "resourceStatusReason": reason,
    }


NEWER_EVENTS = {"nextToken": "older/+=", "events": [_event("HeadNode", "UPDATE_FAILED", "no capacity")]}
OLDER_EVENTS = {
    "nextToken": "oldest",
    "events": [
        _event("local", "UPDATE_IN_PROGRESS", "User Initiated", STACK_ARN),
        _event("Old", "CREATE_FAILED", "of an earlier operation"),
    ],
}
STREAM = "ip-10-0-0-10.i-0123456789abcdef0.cfn-init"
STREAM_ARN = (
    f"arn:aws:logs:us-east-1:123456789012:log-group:/aws/parallelcluster/local-202611210800:log-stream:{STREAM}"
)
STREAMS = {
    "logStreams": [
        {
            "logStreamName": STREAM,
            "logStreamArn": STREAM_ARN,
            "creationTime": TIME,
            "firstEventTimestamp": TIME,
            "lastEventTimestamp": TIME,
            "lastIngestionTime": TIME,
            "uploadSequenceToken": "1",
        }
    ]
}
MESSAGE = {"message": "Cluster 'local' does not exist."}


class Server:
    """Replays answers in order, the last one for ever, and records the requests."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, Any]] = []
        self.targets: list[str] = []
        self.requests: list[tuple[str, str, dict[str, str], dict[str, str], Any]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                server.targets.append(self.path)
                target = urlsplit(self.path)
                query = dict(parse_qsl(target.query))
                parsed = json.loads(body) if body else None
                server.requests.append((self.command, target.path, query, dict(self.headers), parsed))
                status, answer = server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]
                if status == 0:
                    self.close_connection = True
                    return
                content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 - the names that http.server asks for

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/prod"
        Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def methods(self) -> list[str]:
        return [request[0] for request in self.requests]


class TokenService:
    def __init__(self) -> None:
        self.assumed: list[dict[str, Any]] = []

    def assume_role(self, **request: Any) -> dict[str, Any]:  # noqa: ANN401
        self.assumed.append(request)
        return {
            "Credentials": {
                "AccessKeyId": f"AKID{len(self.assumed)}",
                "SecretAccessKey": "secret-key",
                "SessionToken": "session-token",
                "Expiration": datetime.now(UTC) + timedelta(seconds=request["DurationSeconds"]),
            }
        }


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.http.shutdown()
    server.http.server_close()


@pytest.fixture
def tokens(monkeypatch: pytest.MonkeyPatch) -> TokenService:
    tokens = TokenService()
    monkeypatch.setattr(signing, "_token_service", lambda: tokens)
    return tokens


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def api(server: Server, tokens: TokenService, waits: list[float]) -> HttpClusterApi:
    assert tokens.assumed == []
    signer = RoleSigner("arn:aws:iam::123456789012:role/ApiUser", "trainyard-local", "us-east-1")
    return HttpClusterApi(server.url, "us-east-1", signer, sleep=waits.append)


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


def test_requests_are_signed_as_the_api_user_role(server: Server, tokens: TokenService, api: HttpClusterApi) -> None:
    server.answers = [(202, CREATED)]
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
    assert tokens.assumed == [
        {
            "RoleArn": "arn:aws:iam::123456789012:role/ApiUser",
            "RoleSessionName": "trainyard-local",
            "DurationSeconds": 900,
        }
    ]


def test_credentials_are_kept_until_shortly_before_they_expire(server: Server, tokens: TokenService) -> None:
    server.answers = [(404, MESSAGE)]
    now = datetime.now(UTC).timestamp()
    clock = [now]
    api = HttpClusterApi(server.url, "us-east-1", RoleSigner("role", "name", "us-east-1", clock=lambda: clock[0]))
    api.describe("local")
    api.describe("local")
    assert len(tokens.assumed) == 1
    clock[0] = now + 800
    api.describe("local")
    assert len(tokens.assumed) == 2


def test_expired_credentials_are_renewed_once(server: Server, tokens: TokenService, api: HttpClusterApi) -> None:
    expired = {"message": "The security token included in the request is expired"}
    server.answers = [(403, expired), (404, MESSAGE)]
    assert api.describe("local") is None
    assert len(tokens.assumed) == 2
    server.answers = [(403, expired)]
    with pytest.raises(ApiAccessError, match="is expired"):
        api.describe("local")
    assert len(server.requests) == 4


def test_a_refused_role_is_an_access_error(server: Server, api: HttpClusterApi) -> None:
    server.answers = [(403, {"Message": "User: x is not authorized to perform: execute-api:Invoke"})]
    with pytest.raises(ApiAccessError, match="not authorized"):
        api.create("local", "x")


@pytest.mark.parametrize("call", ["create", "update", "delete", "describe"])
def test_throttling_is_waited_out(call: str, server: Server, api: HttpClusterApi, waits: list[float]) -> None:
    final = (200, DESCRIBED) if call == "describe" else (202, CREATED)
    server.answers = [(429, {"message": "Too Many Requests"}), (429, {"message": "Too Many Requests"}), final]
    getattr(api, call)(*(("local", "x") if call in ("create", "update") else ("local",)))
    assert len(server.requests) == 3
    assert len(waits) == 2 and waits[1] > waits[0]


def test_throttling_without_end_is_told(server: Server, api: HttpClusterApi) -> None:
    server.answers = [(429, {"message": "Too Many Requests"})]
    with pytest.raises(ApiError) as error:
        api.create("local", "x")
    assert error.value.http_status == 429
    assert len(server.requests) == 4


@pytest.mark.parametrize("status", [0, 500, 502, 504])
def test_a_call_of_unknown_outcome_is_not_repeated_but_a_look_is(
    status: int, server: Server, api: HttpClusterApi
) -> None:
    unclear = (status, b"<html>no JSON at all</html>" if status == 502 else {"message": "Endpoint request timed out"})
    server.answers = [unclear]
    for call in (lambda: api.create("local", "x"), lambda: api.update("local", "x"), lambda: api.delete("local")):
        with pytest.raises(ApiUnknownError):
            call()
    assert server.methods == ["POST", "PUT", "DELETE"]
    server.answers = [unclear, unclear, (404, MESSAGE)]
    assert api.describe("local") is None
    assert server.methods[3:] == ["GET"] * 3


@pytest.mark.usefixtures("tokens")
def test_a_server_that_is_not_there_is_unknown_after_a_few_attempts() -> None:
    waits: list[float] = []
    api = HttpClusterApi("http://127.0.0.1:1/prod", "us-east-1", RoleSigner("r", "n", "us-east-1"), sleep=waits.append)
    with pytest.raises(ApiUnknownError):
        api.create("local", "x")
    assert len(waits) == 3


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


def test_the_signing_region_is_that_of_the_api() -> None:
    url = "https://abc123.execute-api.ap-southeast-3.amazonaws.com/prod"
    assert signing_region(url, "us-east-1") == "ap-southeast-3"
    assert signing_region("http://127.0.0.1:4600/prod", "us-east-1") == "us-east-1"
    assert len(session_name("x" * 60)) == 64


def test_what_is_signed_is_what_is_sent(server: Server, api: HttpClusterApi) -> None:
    """API Gateway computes the signature over what it receives; so does this test."""
    server.answers = [(200, NEWER_EVENTS), (200, OLDER_EVENTS)]
    api.stack_events("local")
    assert "nextToken=older%2F%2B%3D" in server.targets[1]
    for target, (method, _, _, headers, _) in zip(server.targets, server.requests, strict=True):
        signed = {name: headers[name] for name in ("X-Amz-Date", "X-Amz-Security-Token")}
        received = AWSRequest(method=method, url=f"http://{headers['Host']}{target}", headers=signed)
        received.context["timestamp"] = headers["X-Amz-Date"]
        auth = SigV4Auth(Credentials("AKID1", "secret-key", "session-token"), "execute-api", "us-east-1")
        to_sign = auth.string_to_sign(received, auth.canonical_request(received))
        assert headers["Authorization"].endswith(f"Signature={auth.signature(to_sign, received)}")

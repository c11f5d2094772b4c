"""The client's requests are signed as the API's user role."""

from datetime import UTC, datetime

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from cluster_resource.api import ApiAccessError
from cluster_resource.client import HttpClusterApi, RoleSigner
from tests.cluster_resource.replay import CREATED, MESSAGE, NEWER_EVENTS, OLDER_EVENTS, Server, TokenService


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
    api = HttpClusterApi(
        server.url, "us-east-1", RoleSigner("role", "name", server.url, "us-east-1", clock=lambda: clock[0])
    )
    api.describe("local")
    api.describe("local")
    assert len(tokens.assumed) == 1
    clock[0] = now + 800
    api.describe("local")
    assert len(tokens.assumed) == 2


def test_refused_credentials_are_not_used_again(server: Server, tokens: TokenService, api: HttpClusterApi) -> None:
    server.answers = [(403, {"message": "The security token included in the request is expired"}), (404, MESSAGE)]
    with pytest.raises(ApiAccessError, match="is expired"):
        api.describe("local")
    assert api.describe("local") is None
    assert len(tokens.assumed) == 2


def test_a_refused_role_is_an_access_error(server: Server, api: HttpClusterApi) -> None:
    server.answers = [(403, {"Message": "User: x is not authorized to perform: execute-api:Invoke"})]
    with pytest.raises(ApiAccessError, match="not authorized"):
        api.create("local", "x")


def test_the_signing_region_is_that_of_the_api(tokens: TokenService) -> None:
    for host, region in (("abc123.execute-api.ap-southeast-3.amazonaws.com", "ap-southeast-3"), ("x", "us-east-1")):
        signer = RoleSigner("role", "x" * 60, f"https://{host}/prod", "us-east-1")
        assert f"/{region}/execute-api/" in signer.headers("GET", f"https://{host}/prod", None)["Authorization"]
    assert len(tokens.assumed[0]["RoleSessionName"]) == 64


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

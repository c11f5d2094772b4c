"""What the client asks again, and what it does not."""

import pytest

from cluster_resource.api import ApiError, ApiUnknownError
from cluster_resource.client import HttpClusterApi, RoleSigner
from tests.cluster_resource.replay import CREATED, DESCRIBED, MESSAGE, Server


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
    url = "http://127.0.0.1:1/prod"
    api = HttpClusterApi(url, "us-east-1", RoleSigner("r", "n", url, "us-east-1"), sleep=waits.append)
    with pytest.raises(ApiUnknownError):
        api.create("local", "x")
    assert len(waits) == 3

"""The client against a server that replays answers, and the profile of a deep search for faulty sequences."""

import copy
from collections.abc import Iterator

import pytest
from hypothesis import settings

from cluster_resource import client
from cluster_resource.client import HttpClusterApi, RoleSigner
from tests.cluster_resource.cases import Case
from tests.cluster_resource.replay import TokenService
from tests.stubs import Server, served

settings.register_profile("deep", max_examples=3000, stateful_step_count=12, deadline=None)


@pytest.fixture
def case(request: pytest.FixtureRequest) -> Case:
    copied: Case = copy.deepcopy(request.param)
    return copied


@pytest.fixture
def server() -> Iterator[Server]:
    """The ParallelCluster API."""
    with served("/prod") as server:
        yield server


@pytest.fixture
def receiver() -> Iterator[Server]:
    """CloudFormation's end of the ResponseURL."""
    with served("/answer?signature=secret") as server:
        yield server


@pytest.fixture
def tokens(monkeypatch: pytest.MonkeyPatch) -> TokenService:
    tokens = TokenService()
    monkeypatch.setattr(client, "new_client", lambda _: tokens)
    return tokens


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def api(server: Server, tokens: TokenService, waits: list[float]) -> HttpClusterApi:
    assert tokens.assumed == []
    signer = RoleSigner("arn:aws:iam::123456789012:role/ApiUser", "local", server.url, "us-east-1")
    return HttpClusterApi(server.url, "us-east-1", signer, sleep=waits.append)

"""The client against a server that replays answers; at the end, how many sequences of events were walked."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from cluster_resource import client
from cluster_resource.client import HttpClusterApi, RoleSigner
from tests.cluster_resource.replay import Receiver, Server, TokenService

settings.register_profile("deep", max_examples=3000, stateful_step_count=12, deadline=None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, value in getattr(report, "user_properties", []):
                if name == "sequences":
                    terminalreporter.write_line(f"{report.nodeid.rpartition('::')[2]}: {value}")


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.http.shutdown()
    server.http.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


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

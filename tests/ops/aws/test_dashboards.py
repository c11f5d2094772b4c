"""`trainyard connect --dashboards`: sessions to the host, addresses of managed services, readable refusals."""

from __future__ import annotations

import io
import json
import socket
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from ops.aws import dashboards
from ops.problem import Problem
from tests.constructs.stacks_of import environment
from tests.stubs import activated

FILTERS = [
    {"Name": "tag:trainyard:monitoring", "Values": ["unit"]},
    {"Name": "instance-state-name", "Values": ["running"]},
]


class Account:
    """A session whose clients give prepared answers."""

    def __init__(self, service: str, *answers: dict[str, Any] | str) -> None:
        self._client, stubber = activated(service, "eu-central-1")
        for answer in answers:
            if isinstance(answer, str):
                stubber.add_client_error("describe_stacks", answer, "the stack does not exist")
            else:
                stubber.add_response(*answer["call"])

    def client(self, *_: str) -> Any:  # noqa: ANN401 - any of boto3's
        return self._client


def shown(account: Account, mode: str) -> str:
    output = io.StringIO()
    made = environment(observability={"mode": mode}, region="eu-central-1")
    dashboards.open_dashboards(account, made, Console(file=output, width=300))  # type: ignore[arg-type]
    return output.getvalue()


def instances(*ids: str) -> dict[str, Any]:
    reservations = [{"Instances": [{"InstanceId": name} for name in ids]}] if ids else []
    return {"call": ("describe_instances", {"Reservations": reservations}, {"Filters": FILTERS})}


def test_off_and_a_missing_host_are_refused_with_what_to_do() -> None:
    with pytest.raises(Problem, match="observability is off"):
        shown(Account("ec2"), "off")
    with pytest.raises(Problem, match=r"No monitoring host of unit runs(.|\n)*unit-observability"):
        shown(Account("ec2", instances()), "self-hosted")


def test_managed_prints_the_stacks_addresses() -> None:
    outputs = [{"OutputKey": "Dashboards", "OutputValue": "https://g-1.example", "Description": "Grafana"}]
    stack = {"StackName": "unit-observability", "CreationTime": 0, "StackStatus": "CREATE_COMPLETE", "Outputs": outputs}
    answer = {"call": ("describe_stacks", {"Stacks": [stack]}, {"StackName": "unit-observability"})}
    assert shown(Account("cloudformation", answer), "managed") == "Dashboards: https://g-1.example\n"
    with pytest.raises(Problem, match="Deploy it first"):
        shown(Account("cloudformation", "ValidationError"), "managed")
    with pytest.raises(Problem) as refused:
        shown(Account("cloudformation", "AccessDenied"), "managed")
    assert "Deploy it first" not in str(refused.value)


def test_sessions_forward_the_hosts_ports_and_end_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("aws", "session-manager-plugin"):
        (tmp_path / name).touch(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("socket.create_server", lambda _: SimpleNamespace(close=int))
    monkeypatch.setattr("signal.signal", lambda *_: None)
    start = subprocess.Popen
    started: list[tuple[list[str], subprocess.Popen[bytes]]] = []

    def record(words: list[str], **options: Any) -> subprocess.Popen[bytes]:  # noqa: ANN401 - of Popen
        # The last session ends on its own. The others have a child, as `aws` has the plugin.
        script = "exit 1" if len(started) == 2 else "sleep 600 & wait"
        started.append((words, start(["bash", "-c", script], **options)))
        return started[-1][1]

    monkeypatch.setattr("subprocess.Popen", record)
    with pytest.raises(Problem, match="A session ended"):
        shown(Account("ec2", instances("i-0123456789abcdef0")), "self-hosted")
    assert [process.returncode for _, process in started] == [-15, -15, 1]
    for (words, _), port in zip(started, (3000, 9090, 9093), strict=True):
        given = dict(zip(words[3::2], words[4::2], strict=True))
        assert (given["--target"], given["--document-name"]) == (
            "i-0123456789abcdef0",
            "AWS-StartPortForwardingSession",
        )
        assert json.loads(given["--parameters"]) == {"portNumber": [str(port)], "localPortNumber": [str(port)]}


def test_a_port_in_use_is_refused_before_any_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("aws", "session-manager-plugin"):
        (tmp_path / name).touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        monkeypatch.setattr(dashboards, "PORTS", {"Prometheus": port})
        with pytest.raises(Problem, match=f"Port {port} of this machine, for Prometheus, is in use"):
            shown(Account("ec2", instances("i-0123456789abcdef0")), "self-hosted")


def test_without_the_plugin_it_says_where_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Problem, match="Session Manager plugin"):
        shown(Account("ec2", instances("i-0123456789abcdef0")), "self-hosted")

"""`trainyard connect --dashboards`: sessions to the host, addresses of managed services, readable refusals."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from rich.console import Console

from ops.aws import dashboards
from ops.problem import Problem
from tests.constructs.stacks_of import environment

FILTERS = [
    {"Name": "tag:trainyard:monitoring", "Values": ["unit"]},
    {"Name": "instance-state-name", "Values": ["running"]},
]


class Account:
    """A session whose clients give prepared answers."""

    def __init__(self, service: str, *answers: dict[str, Any] | str) -> None:
        self._client: Any = boto3.client(
            service,  # type: ignore[call-overload]
            region_name="eu-central-1",
            aws_access_key_id="x",
            aws_secret_access_key="x",
        )
        stubber = Stubber(self._client)
        for answer in answers:
            if isinstance(answer, str):
                stubber.add_client_error("describe_stacks", answer, "the stack does not exist")
            else:
                stubber.add_response(*answer["call"])
        stubber.activate()

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
    with pytest.raises(Problem, match="cannot be read"):
        shown(Account("cloudformation", "ValidationError"), "managed")


def test_sessions_forward_the_hosts_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = tmp_path / "calls"
    for name in ("aws", "session-manager-plugin"):
        tool = tmp_path / name
        # One write for each call: the sessions run at the same time.
        tool.write_text(f'#!/bin/bash\nprintf "%s\\n" "$*" >>{calls}\n')
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    # The stand-in of a session ends at once, which is the end of the command.
    with pytest.raises(Problem, match="session to Grafana ended"):
        shown(Account("ec2", instances("i-0123456789abcdef0")), "self-hosted")
    made = environment(region="eu-central-1")
    for port in dashboards.PORTS.values():
        words = dashboards.session(made, "i-0123456789abcdef0", port)
        given = dict(zip(words[3::2], words[4::2], strict=True))
        assert (given["--target"], given["--document-name"]) == (
            "i-0123456789abcdef0",
            "AWS-StartPortForwardingSession",
        )
        assert json.loads(given["--parameters"]) == {"portNumber": [str(port)], "localPortNumber": [str(port)]}


def test_without_the_plugin_it_says_where_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Problem, match="Session Manager plugin"):
        shown(Account("ec2", instances("i-0123456789abcdef0")), "self-hosted")

"""One environment, one state, one operation: what a changed file, a second command and a killed one do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import boto3
import pytest
from rich.console import Console

from cli import main
from local.commands import deployment, session
from local.emulator import launch
from ops import lock
from ops.aws import stacks
from ops.problem import Problem
from settings import environment_file, load
from tests.settings.conftest import write_edited
from tests.settings.examples import HOOK, HOOKS
from tests.stubs import fake_command

FORMER = {"name": "base", "account": "111122223333", "region": "us-east-1"}


@pytest.fixture
def states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of all states, in which every recorded emulator counts as running."""
    monkeypatch.setattr(session, "STATES", tmp_path / ".trainyard")
    monkeypatch.setattr(launch, "find", lambda state: state if (state / session.RECORD).exists() else None)
    monkeypatch.setattr(launch, "start", lambda state, **_: state)
    monkeypatch.setattr(launch, "stop", lambda state: (state / session.RECORD).unlink(missing_ok=True))
    return tmp_path / ".trainyard"


@pytest.fixture
def deployed(states: Path, tmp_path: Path) -> Path:
    """The file of an environment that is deployed."""
    file = write_edited({}, tmp_path)
    session.Session.open(str(file), None).start(None, Console(quiet=True))
    assert (states / "base" / session.RECORD).exists()
    return file


@pytest.mark.parametrize(
    "edit",
    [{"name": "renamed"}, {"account": "444455556666"}, {"region": "us-west-2", "network.zone": "usw2-az1"}],
    ids=["name", "account", "region"],
)
def test_another_name_account_or_region_is_another_environment(deployed: Path, edit: dict[str, object]) -> None:
    write_edited(edit, deployed.parent)
    opened = session.Session.open(str(deployed), None)
    for use in (opened.emulator, lambda: opened.start(None, Console(quiet=True))):
        with pytest.raises(
            Problem, match=r"was deployed as base in 111122223333, us-east-1.*Nothing was changed.*\n.*trainyard down"
        ):
            use()
    former = opened.as_deployed()
    assert former.environment.model_dump(include=set(FORMER)) == FORMER
    assert former.state == opened.state.parent / "base"


def test_what_was_deployed_with_hooks_is_found_again(states: Path, tmp_path: Path) -> None:
    file = write_edited({HOOKS: [HOOK]}, tmp_path)
    session.Session.open(str(file), None).start(None, Console(quiet=True))
    write_edited({"name": "renamed"}, tmp_path)
    (tmp_path / HOOK["script"]).unlink()
    former = session.Session.open(str(file), None).as_deployed()
    assert (former.state, former.environment.name) == (states / "base", "base")


def test_the_same_environment_from_another_file_is_the_same(deployed: Path, tmp_path: Path) -> None:
    (tmp_path / "moved").mkdir()
    moved = deployed.rename(tmp_path / "moved" / "other.yaml")
    assert session.Session.open(str(moved), None).emulator() is not None


@pytest.mark.parametrize("command", [("down",), ("down", "--force", "--delete-data")], ids=["down", "force"])
def test_down_of_a_file_of_the_same_name_leaves_another_environment_alone(
    deployed: Path, states: Path, tmp_path: Path, command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    for name, edit in (("stranger", {"name": "stranger"}), ("elsewhere", {"account": "444455556666"})):
        (tmp_path / name).mkdir()
        there = write_edited(edit, tmp_path / name)
        assert there.name == deployed.name
        status = main([command[0], str(there), *command[1:]])
        assert (states / "base" / session.RECORD).exists()
        if name == "elsewhere":
            assert status == 4
            assert f"deployed from {deployed}" in capsys.readouterr().err


@pytest.mark.parametrize("broken", [False, True], ids=["valid", "with faults"])
def test_a_forced_end_keeps_data_until_the_flag_is_given(
    deployed: Path, states: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], broken: bool
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "of-the-user")
    monkeypatch.setattr(deployment, "aws", lambda _: os.environ.get("AWS_PROFILE"))
    monkeypatch.setattr(
        deployment, "user_data", lambda profile: [(profile or "base-data", 1, "checkpoints/step-1000.pt")]
    )
    if broken:
        deployed.write_text("name: [")
    assert main(["down", str(deployed), "--force"]) == 4
    assert "s3://base-data: 1 object, for example checkpoints/step-1000.pt" in capsys.readouterr().err
    assert (states / "base" / session.RECORD).exists()
    assert main(["down", str(deployed), "--force", "--delete-data"]) == 0
    assert not (states / "base" / session.RECORD).exists()


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process with the lock."""
    program = f"""
        import sys, time
        from pathlib import Path
        from ops import lock
        sys.argv = ["trainyard", "up", "base"]
        with lock.hold(Path({str(tmp_path / "state")!r})):
            print("held", flush=True)
            time.sleep(600)
    """
    line = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_command_is_refused_with_the_holder_and_a_kill_releases_the_lock(
    tmp_path: Path, holder: subprocess.Popen[str], capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    for command, name in (("up", "local"), ("down", "local"), ("preflight", "local"), ("promote", "promotion")):
        assert main([command, name, "--state", str(state)]) == 4
        said = capsys.readouterr().err
        assert f"process {holder.pid} (trainyard up base), since 20" in said
        assert "Wait until it ends, or end it" in said
    holder.kill()
    holder.wait()
    with lock.hold(state):
        assert (state / "lock").stat().st_mode & 0o777 == 0o600
        assert f"process {os.getpid()} " in (state / "lock").read_text()


def test_the_cdk_cli_ends_with_a_killed_command(tmp_path: Path) -> None:
    fake_command(tmp_path / "node_modules" / ".bin" / "cdk", "echo $$\nexec sleep 600")
    log = tmp_path / "cdk.log"
    program = f"""
        from pathlib import Path
        from ops.aws import cdk
        cdk.ROOT = Path({str(tmp_path)!r})
        cdk.run("deploy", env={{}}, log=Path({str(log)!r}))
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)]) as command:
        end = time.monotonic() + 300
        while not (found := re.findall(r"^\d+$", log.read_text() if log.exists() else "", re.M)):
            assert time.monotonic() < end, "the CLI did not start"
            time.sleep(0.05)
        pid = int(found[-1])
        command.kill()
    while Path(f"/proc/{pid}/stat").exists() and " Z " not in Path(f"/proc/{pid}/stat").read_text():
        assert time.monotonic() < end, "the CLI still runs"
        time.sleep(0.05)


class CloudFormation:
    """DescribeStacks and DescribeStackEvents of a few stacks."""

    def __init__(self, **found: tuple[str, str]) -> None:
        self.stacks = [
            {"StackName": name.replace("_", "-"), "StackId": name, "StackStatus": status, "LastUpdatedTime": time}
            for name, (status, time) in found.items()
        ]

    def client(self, _: str) -> CloudFormation:
        return self

    def get_paginator(self, operation: str) -> SimpleNamespace:
        return SimpleNamespace(paginate=getattr(self, operation))

    def describe_stacks(self) -> list[dict[str, object]]:
        return [{"Stacks": self.stacks}]

    def describe_stack_events(self, StackName: str) -> list[dict[str, object]]:  # noqa: N803 - boto3's name
        failed = {
            "ResourceStatus": "UPDATE_FAILED", "ResourceStatusReason": "no", "LogicalResourceId": "Thing",
            "ResourceType": "AWS::X::Y", "PhysicalResourceId": "x", "StackId": StackName,
        }  # fmt: skip
        return [{"StackEvents": [failed]}]


def of(cloudformation: CloudFormation) -> boto3.Session:
    return cloudformation  # type: ignore[return-value]


def test_only_failures_of_this_run_are_reported() -> None:
    environment = load(environment_file("local"))
    failed = "UPDATE_ROLLBACK_COMPLETE"
    before = CloudFormation(local_network=(failed, "1"), local_cluster=("UPDATE_COMPLETE", "1"))
    after = CloudFormation(local_network=(failed, "1"), local_cluster=(failed, "2"), local_api=(failed, "2"))
    operations = stacks.operations(of(before), environment)
    assert stacks.failure_reasons(of(after), environment, operations) == [
        "local-cluster: Thing (AWS::X::Y): no",
        "local-api: Thing (AWS::X::Y): no",
    ]


def test_a_cluster_whose_name_begins_as_the_environment_is_not_one_of_its_stacks() -> None:
    found = CloudFormation(**dict.fromkeys(["local_gpu", "local_cluster", "local_2_api"], ("CREATE_COMPLETE", "1")))
    nested = {
        "StackName": "local-api-X",
        "StackId": "n",
        "StackStatus": "CREATE_COMPLETE",
        "RootId": "local_cluster",
    }
    of_the_cluster = nested | {"StackName": "local-cluster-Login", "StackId": "l", "RootId": "local_gpu"}
    found.stacks += [nested, of_the_cluster]
    names = [stack["StackName"] for stack in stacks.stacks_of(of(found), load(environment_file("local")))]
    assert names == ["local-cluster", "local-api-X"]

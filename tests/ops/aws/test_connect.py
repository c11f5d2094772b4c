"""The SSH configuration: read by OpenSSH, run with a stand-in of the AWS CLI, checked against botocore's models."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import botocore.session
import pytest
from botocore import xform_name

from cli import main
from ops.aws import connect
from ops.problem import Problem
from settings import Environment
from settings.model.people import PeopleFile, User
from tests.cluster_config.builder import environment
from tests.stubs import fake_command

NODE = "i-0123456789abcdef0"
NODES = {"small": NODE, "small-login-1": "i-0123456789abcdef1"}


def with_os(name: str) -> Environment:
    found = environment()
    return found.model_copy(update={"cluster": found.cluster.model_copy(update={"os": name})})


def ssh_reads(file: Path, host: str) -> dict[str, str]:
    """What OpenSSH makes of a configuration."""
    done = subprocess.run(["ssh", "-G", "-F", str(file), host], capture_output=True, text=True, check=True)
    return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)


@pytest.mark.parametrize("folder", ["plain", "with a space"])
@pytest.mark.parametrize(("system", "user"), [("ubuntu2204", "ubuntu"), ("alinux2023", "ec2-user")])
def test_openssh_connects_through_systems_manager(folder: str, system: str, user: str, tmp_path: Path) -> None:
    place = tmp_path / folder
    file = connect.write(place, with_os(system), NODES, None)
    read = ssh_reads(file, "small")
    assert (read["hostname"], read["user"]) == (NODE, user)
    assert read["stricthostkeychecking"] == "accept-new"
    assert ssh_reads(file, "small-login-1")["hostname"] == NODES["small-login-1"]

    tools = tmp_path / "bin"
    fake_command(tools / "aws", 'printf "%s\\n" "$@" END >> "$CALLS"')
    calls = tmp_path / "calls"
    paths = {"PATH": f"{tools}:{os.environ['PATH']}", "CALLS": str(calls), "HOME": str(tmp_path)}
    subprocess.run(["ssh", "-F", str(file), "small", "true"], env=paths, capture_output=True, timeout=300, check=False)
    sent, started = (call.splitlines() for call in calls.read_text().split("END\n")[:-1])
    assert sent[:2] == ["ec2-instance-connect", "send-ssh-public-key"]
    assert started[:2] == ["ssm", "start-session"]
    public = (place / "id_ed25519.pub").read_text()
    given = dict(zip(sent[2::2], sent[3::2], strict=True))
    assert Path(given["--ssh-public-key"].removeprefix("file://")).read_text() == public
    assert (given["--instance-id"], given["--instance-os-user"]) == (NODE, user)
    session = dict(zip(started[2::2], started[3::2], strict=True))
    assert (session["--target"], session["--parameters"]) == (NODE, "portNumber=22")
    assert session["--document-name"] == "AWS-StartSSHSession"

    models = botocore.session.get_session()
    for call, (service, operation) in (
        (given, ("ec2-instance-connect", "SendSSHPublicKey")),
        (session, ("ssm", "StartSession")),
    ):
        shape = models.get_service_model(service).operation_model(operation).input_shape
        assert shape is not None
        known = {f"--{xform_name(name, '-')}" for name in shape.members}
        assert call.keys() - {"--region"} <= known
    shape = models.get_service_model("ec2-instance-connect").operation_model("SendSSHPublicKey").input_shape
    assert shape is not None
    limits = shape.members["SSHPublicKey"].metadata
    assert limits["min"] <= len(public) <= limits["max"]


def test_files_are_their_owners_and_the_private_key_is_in_no_output(tmp_path: Path) -> None:
    folder = tmp_path / "ssh"
    file = connect.write(folder, environment(), NODES, None)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path in (file, folder / "id_ed25519"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    secret = (folder / "id_ed25519").read_text().splitlines()[1]
    assert secret not in file.read_text() + "\n".join(connect.advice(file, list(NODES)))
    before = (folder / "id_ed25519").read_text()
    folder.chmod(0o755)
    connect.write(folder, environment(), NODES, None)
    assert (folder / "id_ed25519").read_text() == before
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755, "the mode of an existing folder is its owner's"


def test_wrong_keys_and_systems_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Problem, match=r"\.pub next to it"):
        connect.write(tmp_path, environment(), NODES, tmp_path / "none")
    with pytest.raises(Problem, match="no EC2 Instance Connect"):
        connect.write(tmp_path, with_os("rocky9"), NODES, None)
    for name in ("key", "key.pub"):
        (tmp_path / name).write_text("x")
    command = ssh_reads(connect.write(tmp_path, with_os("rocky9"), NODES, tmp_path / "key"), "small")["proxycommand"]
    assert "send-ssh-public-key" not in command
    with pytest.raises(Problem, match="cannot hold"):
        connect.write(tmp_path / "a'b", environment(), NODES, None)
    monkeypatch.setenv("AWS_PROFILE", 'a";touch x;"')
    with pytest.raises(Problem, match="AWS_PROFILE"):
        connect.write(tmp_path, environment(), NODES, None)


def test_missing_tools_are_named_with_their_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert any("session-manager-working-with-install-plugin" in page for page in connect.missing_tools())
    for tool in connect.TOOLS:
        (tmp_path / tool).touch(0o755)
    assert connect.missing_tools() == []


def test_lines_to_copy(tmp_path: Path) -> None:
    lines = "\n".join(connect.advice(tmp_path / "a b.conf", list(NODES)))
    for part in (
        f"ssh -F '{tmp_path}/a b.conf' small\n",
        "scp -F",
        "-L 8888:localhost:8888",
        f'Include "{tmp_path}/a b',
    ):
        assert part in lines


def test_hosts_are_the_head_node_and_the_login_nodes_that_run() -> None:
    nodes = {
        "HeadNode": {"i-1": "running", "i-2": "terminated"},
        "LoginNode": {"i-5": "running", "i-4": "running", "i-3": "stopped"},
    }

    def paginate(Filters: list[dict[str, Any]]) -> list[dict[str, Any]]:  # noqa: N803 - boto3's name
        wanted = {item["Name"]: item["Values"] for item in Filters}
        assert wanted["tag:parallelcluster:cluster-name"] == ["small"]
        [kind] = wanted["tag:parallelcluster:node-type"]
        found = [{"InstanceId": name, "State": {"Name": state}} for name, state in nodes[kind].items()]
        return [{"Reservations": [{"Instances": [item]} for item in found]}]

    ec2: Any = SimpleNamespace(get_paginator=lambda _: SimpleNamespace(paginate=paginate))
    assert connect.hosts(ec2, environment()) == {"small": "i-1", "small-login-1": "i-4", "small-login-2": "i-5"}


def test_one_of_the_people_logs_in_with_a_key_that_the_nodes_know(tmp_path: Path) -> None:
    with_people = environment(people={"file": "people.yaml"})
    own = tmp_path / "own"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", own], check=True)
    public = own.with_suffix(".pub").read_text().strip()
    ada = User(name="ada", uid=10000, keys=(public.rpartition(" ")[0] + " another comment",))
    with_people.people.fill(PeopleFile(users=(ada,)))
    found = ssh_reads(connect.write(tmp_path / "a", with_people, NODES, own, "ada"), "small")
    assert found["user"] == "ada"
    assert "send-ssh-public-key" not in found["proxycommand"]
    other = ssh_reads(connect.write(tmp_path / "b", with_people, NODES, None, "ada"), "small")
    assert other["user"] == "ada"
    assert "send-ssh-public-key" in other["proxycommand"]
    with pytest.raises(Problem, match=r"has no user 'grace'\. Users: ada"):
        connect.write(tmp_path, with_people, NODES, None, "grace")
    with pytest.raises(Problem, match="only the cluster's user"):
        connect.write(tmp_path, environment(), NODES, None, "ada")


@pytest.mark.parametrize(("missing", "status"), [(["https://aws.example/plugin"], 4), ([], 0)])
def test_missing_tools_are_status_4(
    missing: list[str], status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ops.preflight.aws.require_account", lambda *_: None)
    monkeypatch.setattr(connect, "hosts", lambda *_: NODES)
    monkeypatch.setattr(connect, "missing_tools", lambda: missing)
    assert main(["connect", "local", "--folder", str(tmp_path / "ssh")]) == status
    assert ("Missing on this machine" in capsys.readouterr().out) == bool(missing)

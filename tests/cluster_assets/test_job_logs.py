"""Outputs of jobs for the CloudWatch agent: which files it gets, and with which settings."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ops.logs import _JOB_LOG, JOB_STREAMS
from tests.cluster_assets.conftest import ASSETS
from tests.jobs.conftest import load_module
from tests.stubs import fake_command

if TYPE_CHECKING:
    from tests.cluster_assets.conftest import Node

Settings = dict[str, Any]
GROUP = "/aws/parallelcluster/local-202611231800"
CTL = "/opt/aws/amazon-cloudwatch-agent/bin/amazon-cloudwatch-agent-ctl"
TOPIC = "arn:aws:sns:us-east-1:111122223333:trainyard-local-notifications"
DAY_S = 24 * 3600
PROGRAM = load_module(ASSETS / "monitoring" / "job-logs.py")


@pytest.fixture
def head(node: Node) -> Node:
    """A head node of ParallelCluster with its agent, which records its calls."""
    node.path("/etc/chef/dna.json").write_text(json.dumps({"cluster": {"log_group_name": GROUP}}))
    fake_command(node.path(CTL), 'echo "$*" >>"${FAKE}/agent-calls"\n[[ ! -e "${FAKE}/refuses" ]]')
    for folder in ("/lustre/logs", "/lustre/model1/logs"):
        node.path(folder).mkdir(parents=True)
    return node


def step(node: Node, settings: Settings, mode: str) -> str:
    """Run the step, which never fails; returns its log."""
    monitored = settings | ({"monitoring": {"mode": mode, "topic_arn": TOPIC}} if mode else {})
    (node.fake / "settings.json").write_text(json.dumps(monitored))
    line = ["bash", str(ASSETS / "steps" / "job-logs.sh")]
    variables = os.environ | node.environment | {"TRAINYARD_SETTINGS": str(node.fake / "settings.json")}
    return subprocess.run(line, env=variables, capture_output=True, text=True, timeout=60, check=True).stderr


def test_the_agent_gets_one_stream_per_output_until_the_mode_is_off(head: Node, settings: Settings) -> None:
    step(head, settings, "cloudwatch")
    file = head.path("/opt/trainyard/cloudwatch-agent-jobs.json")
    assert json.loads(file.read_text())["logs"]["logs_collected"]["files"]["collect_list"] == [
        {
            "file_path": "/var/log/trainyard/jobs/*.out",
            "log_group_name": GROUP,
            "log_stream_name": JOB_STREAMS.rstrip("_"),
            "publish_multi_logs": True,
        }
    ]
    assert head.calls("agent") == [f"-a append-config -m ec2 -c file:{file} -s"]
    timer = head.path("/etc/systemd/system/trainyard-job-logs.timer")
    unit = timer.with_suffix(".service").read_text()
    assert "/monitoring/job-logs.py --to /var/log/trainyard/jobs /lustre/logs /lustre/model1/logs\n" in unit
    assert head.path("/var/log/trainyard/jobs").stat().st_mode & 0o7777 == 0o700
    assert timer.exists() and "restart trainyard-job-logs.timer" in head.calls("systemctl")
    before = head.snapshot()
    step(head, settings, "self-hosted")
    assert head.snapshot() == before and len(head.calls("agent")) == 1
    step(head, settings, "")
    assert not file.exists() and not timer.exists()
    assert head.calls("agent")[1] == f"-a remove-config -m ec2 -c file:{file} -s"


class Outputs:
    """Two folders for logs, and the folder of the copies."""

    def __init__(self, folder: Path) -> None:
        self.logs, self.models, self.copies = folder / "logs", folder / "model1" / "logs", folder / "copies"
        for path in (self.logs, self.models, self.copies):
            path.mkdir(parents=True)

    def write(self, name: str, text: str = "line\n", uid: int = 1000, folder: Path | None = None) -> Path:
        file = (folder or self.logs) / name
        file.write_text(text)
        os.chown(file, uid, uid)
        return file

    def copied(self, *, now: float = 0) -> dict[str, str]:
        PROGRAM.run([str(self.logs), str(self.models)], self.copies, now or time.time())
        return {file.name.rpartition("logs+")[2]: file.read_text() for file in self.copies.glob("*.out")}


@pytest.fixture
def outputs(tmp_path: Path) -> Outputs:
    if os.geteuid():
        pytest.skip("outputs of several users: needs root")
    return Outputs(tmp_path)


def test_what_is_new_is_copied_once_and_removed_after_a_day(outputs: Outputs) -> None:
    file = outputs.write("hello gpu-7.out")
    outputs.write("hello gpu-7.out", "of a model\n", folder=outputs.models)
    outputs.write("train-8_1.out")
    outputs.write("notes.txt")
    os.utime(outputs.write("old-5.out"), (1, 1))
    outputs.copied()
    with file.open("a") as more:
        more.write("another\n")
    outputs.copied()
    found = sorted(copy.read_text() for copy in outputs.copies.glob("*.out"))
    assert found == ["line\n", "line\nanother\n", "of a model\n"]
    names = [f"{JOB_STREAMS}_{str(copy).strip('/').replace('/', '_')}" for copy in outputs.copies.glob("*gpu-7.out")]
    assert len(names) == 2 and all((job := _JOB_LOG.search(name)) and job["job"] == "7" for name in names)
    file.write_text("again\n")  # a shorter text in its place
    assert outputs.copied()["hello%20gpu-7.out"] in ("line\nanother\nagain\n", "of a model\n")
    assert outputs.copied(now=time.time() + 2 * DAY_S) == {}
    assert outputs.copied(now=time.time() + 2 * DAY_S) == {}


def test_a_folder_that_is_away_for_a_round_is_not_copied_twice(outputs: Outputs) -> None:
    outputs.write("train-1.out")
    outputs.copied()
    away = outputs.logs.rename(outputs.copies.parent / "away")
    outputs.copied()
    away.rename(outputs.logs)
    assert outputs.copied() == {"train-1.out": "line\n"}


def test_a_read_that_fails_in_the_middle_is_repeated_from_there(
    outputs: Outputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs.write("train-1.out", "12345678")
    monkeypatch.setattr(PROGRAM, "READ_BYTES", 3)
    read = os.pread

    def failing(source: int, count: int, offset: int) -> bytes:
        if offset == 6:
            raise OSError("the file system hangs")
        return read(source, count, offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", failing)
        assert outputs.copied() == {"train-1.out": "123456"}
    assert outputs.copied() == {"train-1.out": "12345678"}
    # When a folder leaves the configuration, places in its outputs are kept until their copies are removed.
    for now, places in ((time.time(), 1), (time.time() + 2 * DAY_S, 0)):
        PROGRAM.run([str(outputs.models)], outputs.copies, now)
        assert len(json.loads((outputs.copies / ".state.json").read_text())) == places


def test_no_path_makes_it_read_another_file(outputs: Outputs) -> None:
    secret = outputs.write("secret", uid=0)
    (outputs.logs / "link-1.out").symlink_to(secret)
    os.link(outputs.write("of-another"), outputs.logs / "hard-2.out")
    outputs.write("root-3.out", uid=0)
    os.mkfifo(outputs.logs / "fifo-4.out")
    os.chown(outputs.logs / "fifo-4.out", 1000, 1000)
    outputs.models.rmdir()
    outputs.models.symlink_to(outputs.logs)
    assert outputs.copied() == {}
    # Exchanged after the check of the name: the open fails, or the descriptor is refused.
    parent = os.open(outputs.logs, os.O_RDONLY)
    with pytest.raises(OSError, match="symbolic links"):
        PROGRAM.copy(parent, "link-1.out", outputs.copies / "x.out", [0, 0], 100)
    for name in ("hard-2.out", "root-3.out", "fifo-4.out"):
        assert PROGRAM.copy(parent, name, outputs.copies / "x.out", [0, 0], 100) == 0
    os.close(parent)
    assert not list(outputs.copies.glob("*.out"))


def test_copies_are_bounded(outputs: Outputs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PROGRAM, "FILE_BYTES", 6)
    monkeypatch.setattr(PROGRAM, "ALL_BYTES", 8)
    outputs.write("a-1.out", "12345678")
    outputs.write("b-2.out", "12345678")
    for _ in range(2):
        assert sorted(map(len, outputs.copied().values())) in ([2, 6], [6])
    monkeypatch.setattr(PROGRAM, "ALL_BYTES", 1 << 20)
    monkeypatch.setattr(PROGRAM, "ALL_FILES", 3)
    for number in (3, 4, 5):
        outputs.write(f"c-{number}.out", "1234")
    for _ in range(2):
        assert len(outputs.copied()) == 3
    (outputs.logs / "a-1.out").unlink()  # its copy still takes room
    outputs.write("d-6.out", "1234")
    assert len(outputs.copied()) == 3
    assert len(outputs.copied(now=time.time() + 2 * DAY_S)) <= 3


def test_a_stopped_timer_is_started_and_a_hang_is_a_warning(head: Node, settings: Settings) -> None:
    step(head, settings, "cloudwatch")
    head.command("systemctl", '[[ "$1" != is-active ]] || exit 3\necho "$*" >>"${FAKE}/again-calls"')
    assert "WARNING" not in step(head, settings, "cloudwatch")
    assert "restart trainyard-job-logs.timer" in head.calls("again")
    head.command("systemctl", "exec sleep 3600")
    head.environment["TRAINYARD_MONITORING_SECONDS"] = "1"
    assert "outputs of jobs are not sent to CloudWatch Logs" in step(head, settings, "")


def test_without_an_agent_or_with_one_that_refuses(head: Node, settings: Settings) -> None:
    (head.fake / "refuses").touch()
    assert "outputs of jobs are not sent to CloudWatch Logs" in step(head, settings, "cloudwatch")
    assert not head.path("/opt/trainyard/cloudwatch-agent-jobs.json").exists()
    head.path(CTL).unlink()
    assert "no CloudWatch agent on this node" in step(head, settings, "cloudwatch")

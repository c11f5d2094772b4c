"""Outputs of jobs for the CloudWatch agent: which files it gets, and what it is told."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from ops.logs import _JOB_LOG, JOB_STREAMS
from tests.cluster_assets.conftest import ASSETS

if TYPE_CHECKING:
    from tests.cluster_assets.conftest import Node

Settings = dict[str, Any]
GROUP = "/aws/parallelcluster/local-202611231800"
CTL = "/opt/aws/amazon-cloudwatch-agent/bin/amazon-cloudwatch-agent-ctl"
TOPIC = "arn:aws:sns:us-east-1:111122223333:trainyard-local-notifications"
DAY_S = 24 * 3600


@pytest.fixture
def head(node: Node) -> Node:
    """A head node of ParallelCluster with its agent, which records its calls."""
    node.path("/etc/chef/dna.json").write_text(json.dumps({"cluster": {"log_group_name": GROUP}}))
    node.path(CTL).parent.mkdir(parents=True)
    node.path(CTL).write_text('#!/usr/bin/env bash\necho "$*" >>"${FAKE}/agent-calls"\n[[ ! -e "${FAKE}/refuses" ]]\n')
    node.path(CTL).chmod(0o755)
    for folder in ("/lustre/logs", "/lustre/model1/logs"):
        node.path(folder).mkdir(parents=True)
    return node


def step(node: Node, settings: Settings, mode: str, *words: str) -> str:
    """Run the step, which never fails; returns its log."""
    monitored = settings | ({"monitoring": {"mode": mode, "topic_arn": TOPIC}} if mode else {})
    (node.fake / "settings.json").write_text(json.dumps(monitored))
    line = ["bash", str(ASSETS / "steps" / "job-logs.sh"), *words]
    variables = os.environ | node.environment | {"TRAINYARD_SETTINGS": str(node.fake / "settings.json")}
    return subprocess.run(line, env=variables, capture_output=True, text=True, timeout=60, check=True).stderr


def test_the_agent_gets_one_stream_per_output_until_the_mode_is_off(head: Node, settings: Settings) -> None:
    step(head, settings, "cloudwatch")
    file = head.path("/opt/trainyard/cloudwatch-agent-jobs.json")
    assert json.loads(file.read_text())["logs"]["logs_collected"]["files"]["collect_list"] == [
        {
            "file_path": "/lustre/.trainyard-job-logs/*.out",
            "log_group_name": GROUP,
            "log_stream_name": JOB_STREAMS.rstrip("_"),
            "publish_multi_logs": True,
        }
    ]
    assert head.calls("agent") == [f"-a append-config -m ec2 -c file:{file} -s"]
    timer = head.path("/etc/systemd/system/trainyard-job-logs.timer")
    assert timer.exists() and "restart trainyard-job-logs.timer" in head.calls("systemctl")
    before = head.snapshot()
    step(head, settings, "self-hosted")
    assert head.snapshot() == before and len(head.calls("agent")) == 1
    step(head, settings, "")
    assert not file.exists() and not timer.exists()
    assert head.calls("agent")[1] == f"-a remove-config -m ec2 -c file:{file} -s"


def test_recent_outputs_are_linked_and_nothing_else(head: Node, settings: Settings) -> None:
    """A symbolic link would make the agent, which is root, read a file that its owner may not."""
    logs, models, links = (head.path(p) for p in ("/lustre/logs", "/lustre/model1/logs", "/lustre/.trainyard-job-logs"))
    secret = head.path("/etc/secret")
    secret.write_text("root's")
    for file in (logs / "hello gpu-7.out", models / "hello gpu-7.out", logs / "old-5.out", logs / "notes.txt"):
        file.write_text("line\n")
    os.utime(logs / "old-5.out", (1, 1))
    (logs / "x-9.out").symlink_to(secret)
    step(head, settings, "managed", "link")
    link, other = (links / f"_lustre_{folder}_hello gpu-7.out" for folder in ("logs", "model1_logs"))
    assert sorted(links.iterdir()) == [link, other]
    assert links.stat().st_mode & 0o7777 == 0o700
    with (logs / "hello gpu-7.out").open("a") as more:
        more.write("another\n")
    assert link.read_text() == "line\nanother\n"
    stream = (
        f"{JOB_STREAMS}_lustre_.trainyard-job-logs__lustre_logs_hello_gpu-7.out"  # generateLogStreamName of the agent
    )
    assert (found := _JOB_LOG.search(stream)) and found["job"] == "7"

    (models / "hello gpu-7.out").unlink()
    past = (logs / "hello gpu-7.out").stat().st_mtime - 2 * DAY_S
    os.utime(logs / "hello gpu-7.out", (past, past))
    step(head, settings, "managed", "link")
    assert not list(links.iterdir())


def test_a_link_that_replaced_an_output_is_removed(head: Node, settings: Settings) -> None:
    """Between the search and the link; here the search itself is a stand-in."""
    (head.path("/lustre/logs") / "x-9.out").symlink_to("/etc/passwd")
    head.command("find", f'[[ "$*" != *print0* ]] || printf "%s\\0" "{head.path("/lustre/logs")}/x-9.out"')
    step(head, settings, "managed", "link")
    assert not list(head.path("/lustre/.trainyard-job-logs").iterdir())


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

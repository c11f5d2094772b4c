"""The real command against a deployed cluster of the emulated AWS, whose head node is that of a real Slurm."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import pytest

from local.emulator import launch
from tests.ops.validation.conftest import Deployed

BROKEN = "gpu-dy-p5-2"


def lines(report: dict[str, Any], outcome: str) -> list[dict[str, str]]:
    return [line for line in report["lines"] if line["outcome"] == outcome]


@contextmanager
def file_with(deployed: Deployed, path: str, change: dict[str, Any], *nodes: str) -> Iterator[None]:
    """A JSON file of some nodes with other values, until the block ends."""
    lab = deployed.laboratory
    before = {node: lab.output(["cat", path], node=node) for node in nodes}
    try:
        for node, text in before.items():
            lab.write(path, json.dumps(json.loads(text) | change), node=node, user="root")
        yield
    finally:
        for node, text in before.items():
            lab.write(path, text, node=node, user="root")


def test_a_healthy_cluster_passes_and_nothing_stays_behind(deployed: Deployed) -> None:
    status, report, said = deployed.validate()
    assert status == 0, said + json.dumps(report, indent=1)
    assert not lines(report, "not asked")
    passed = {(line["check"], line["where"]) for line in lines(report, "passed")}
    assert {("hello-gpu", "gpu-dy-p5-1"), ("hello-gpu", BROKEN), ("gpu-check", BROKEN), ("scan", BROKEN)} <= passed
    assert ("storage", "/fsx from gpu/p5") in passed
    assert ("scan", "cpu-dy-c7i-2") in passed
    assert ("nccl", "gpu/p5, 2 nodes") in passed
    lab = deployed.laboratory
    assert lab.output(["squeue", "--noheader"]) == ""
    assert lab.output("ls -A /fsx/.tests") == ""


def test_bad_nodes_fail_with_what_is_wrong_with_them(deployed: Deployed) -> None:
    """A GPU that is gone, on one node; collectives and a file system that are too slow, on all."""
    before = json.loads(deployed.laboratory.output(["cat", "/etc/lab/gpus.json"], node=BROKEN))
    slow = {"collectives": dict.fromkeys(("all_reduce", "all_gather", "reduce_scatter"), 100)}
    slow["collectives"] |= {"broadcast": 150, "reduce": 150, "alltoall": 40}
    nodes = ("gpu-dy-p5-1", BROKEN)
    with (
        file_with(deployed, "/etc/lab/gpus.json", {"gpus": before["gpus"][:7]}, BROKEN),
        file_with(deployed, "/etc/lab/figures.json", slow | {"mounts": {"/fsx": 90}}, *nodes),
    ):
        status, report, said = deployed.validate("--skip", "head-scan,gpu-check")
    assert status == 1, said
    failed = {(line["check"], line["where"], line["asked"]): line for line in lines(report, "failed")}
    scan = failed["scan", BROKEN, "gpus"]
    assert scan["found"].startswith("7 x ") and scan["wanted"].startswith("8 x ") and scan["action"]
    assert failed["hello-gpu", BROKEN, "does every GPU answer?"]["found"] == "7 GPUs"
    assert "floor 250" in failed["nccl", "gpu/p5, 2 nodes", "all_reduce"]["found"]
    assert "floor 120" in failed["storage", "/fsx from gpu/p5", "throughput of Lustre"]["found"]
    assert any("7 GPUs, and there must be 8" in line["output"] for line in failed.values())
    # The node that is well, and the collectives that are fast enough, pass beside them.
    passed = {(line["check"], line["where"], line["asked"]) for line in lines(report, "passed")}
    assert ("hello-gpu", "gpu-dy-p5-1", "does every GPU answer?") in passed
    assert ("nccl", "gpu/p5, 2 nodes", "alltoall") in passed


def test_a_job_that_never_starts_is_ended_with_slurms_reason(deployed: Deployed) -> None:
    lab = deployed.laboratory
    lab.run(["scontrol", "update", f"nodename={BROKEN}", "state=drain", "reason=no capacity"], user="root")
    try:
        status, report, said = deployed.validate("--only", "hello-gpu", "--start-minutes", "1")
    finally:
        lab.run(["scontrol", "update", f"nodename={BROKEN}", "state=resume"], user="root")
    assert status == 1, said
    [line] = lines(report, "failed")
    assert "pending for 1 min, Slurm's reason: " in line["found"] and "none" not in line["found"]
    assert "no capacity" in line["output"]
    assert lab.output(["squeue", "--noheader"]) == ""


def test_nodes_that_are_taken_by_a_users_job_are_not_judged(deployed: Deployed) -> None:
    lab = deployed.laboratory
    lab.output(["sbatch", "--partition=gpu", "--nodes=2", "--exclusive", "--job-name=mine", "--wrap=sleep 900"])
    try:
        status, report, said = deployed.validate("--skip", "scan,gpu-check,nccl,storage", "--start-minutes", "1")
    finally:
        lab.output(["scancel", "--name=mine"])
    assert status == 0, said + json.dumps(report, indent=1)
    [line] = lines(report, "not asked")
    assert line["check"] == "hello-gpu" and line["found"] == "nodes are taken by other jobs, 1 min long"
    assert report["headline"].startswith("PASSED on the head node alone")


def test_a_head_node_without_an_agent(deployed: Deployed) -> None:
    deployed.steer.agent("local", answers=False)
    try:
        status, report, said = deployed.validate("--only", "head-scan")
    finally:
        deployed.steer.agent("local", answers=True)
    assert (status, report) == (4, {})
    assert "Systems Manager has no agent on the head node" in said and "Traceback" not in said


@pytest.mark.parametrize("request_", ["facts;id", "submit hello-gpu $(id)", "look 1 `id`", "Facts", "facts 'x y'"])
def test_the_document_takes_no_words_of_a_shell(deployed: Deployed, request_: str) -> None:
    world = launch.find(deployed.state)
    assert world is not None
    ssm = boto3.client(
        "ssm",
        endpoint_url=world.endpoint,
        region_name=world.region,
        aws_access_key_id=world.account,
        aws_secret_access_key="local",
    )
    name = ssm.get_parameter(Name="/trainyard/local/validation/document")["Parameter"]["Value"]
    head = ssm.get_parameter(Name="/trainyard/local/head-node/instance-id")["Parameter"]["Value"]
    with pytest.raises(ssm.exceptions.InvalidParameters):
        ssm.send_command(InstanceIds=[head], DocumentName=name, Parameters={"Request": [request_]})

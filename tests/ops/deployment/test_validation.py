"""The command against a deployment to the emulated AWS, whose head node is that of a real Slurm."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from local.slurm import Laboratory
from local.slurm.remote import LABORATORIES
from local.steering import Steer
from settings import load
from tests.ops.deployment.deployed import Deployed

pytestmark = pytest.mark.e2e
BROKEN = "gpu-dy-p5-2"
Check = tuple[str, str, str]
"""Check, where, and what was asked."""


@dataclass
class Validated(Deployed):
    """The deployment, and the command."""

    def validate(self, status: int, *options: str) -> tuple[dict[str, Any], str]:
        """Report and progress of a validation that must end with this status."""
        file = self.local.file.with_name("report.json")
        file.unlink(missing_ok=True)
        done = self.local.run("validate", "--format", "json", "--output", str(file), *options)
        report: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        assert done.returncode == status, done.stdout + json.dumps(report, indent=1)
        return report, done.stdout

    @property
    def laboratory(self) -> Laboratory:
        """The cluster's Slurm, after a validation has started it."""
        environment = load(self.local.file)
        return Laboratory(self.local.state / LABORATORIES / f"{environment.account}-{environment.cluster_name}")


@pytest.fixture(scope="module")
def deployed(lab_machine: None, deployment: Deployed) -> Validated:  # noqa: ARG001 -- a fixture that asks for another
    return Validated(deployment.local, deployment.emulator)


def lines(report: dict[str, Any], outcome: str) -> dict[Check, dict[str, str]]:
    """The lines with an outcome."""
    found = [line for line in report["lines"] if line["outcome"] == outcome]
    return {(line["check"], line["where"], line["asked"]): line for line in found}


@contextmanager
def file_with(deployed: Validated, path: str, change: dict[str, Any], *nodes: str) -> Iterator[None]:
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


@contextmanager
def without_bucket(deployed: Validated) -> Iterator[None]:
    """The checkpoint bucket is gone until the block ends."""
    lab = deployed.laboratory
    bucket = f"/run/lab/s3/{lab.plan.buckets['checkpoints']}"
    lab.run(["mv", bucket, f"{bucket}-gone"], user="root")
    try:
        yield
    finally:
        lab.run(["mv", f"{bucket}-gone", bucket], user="root")


def resume(lab: Laboratory) -> None:
    lab.run(["scontrol", "update", f"nodename={BROKEN}", "state=resume"], user="root")


def test_healthy_cluster_passes_and_no_job_is_left(deployed: Validated) -> None:
    report, _ = deployed.validate(0)
    assert not lines(report, "not asked")
    assert {
        ("hello-gpu", "gpu-dy-p5-1"), ("hello-gpu", BROKEN), ("gpu-check", BROKEN), ("scan", BROKEN),
        ("storage", "/fsx from gpu/p5"), ("scan", "cpu-dy-c7i-2"), ("nccl", "gpu/p5, 2 nodes"),
        ("s3", "gpu/p5"), ("s3", "cpu/c7i"),
    } <= {check[:2] for check in lines(report, "passed")}  # fmt: skip
    lab = deployed.laboratory
    assert lab.output(["squeue", "--noheader"]) == ""
    assert lab.output("ls -A /fsx/.tests") == ""


def test_bad_nodes_fail(deployed: Validated) -> None:
    """One node lacks a GPU; collectives and a file system are too slow on all, and S3 fails."""
    before = json.loads(deployed.laboratory.output(["cat", "/etc/lab/gpus.json"], node=BROKEN))
    slow = {"collectives": dict.fromkeys(("all_reduce", "all_gather", "reduce_scatter"), 100)}
    slow["collectives"] |= {"broadcast": 150, "reduce": 150, "alltoall": 40}
    nodes = ("gpu-dy-p5-1", BROKEN)
    with (
        file_with(deployed, "/etc/lab/gpus.json", {"gpus": before["gpus"][:7]}, BROKEN),
        file_with(deployed, "/etc/lab/figures.json", slow | {"mounts": {"/fsx": 90}}, *nodes),
        without_bucket(deployed),
    ):
        report, _ = deployed.validate(1, "--skip", "head-scan,gpu-check", "--drain")
        drained = deployed.laboratory.output(["sinfo", "-R", "-h", "-o", "%n %t %E"])
        resume(deployed.laboratory)
    assert drained.startswith(BROKEN) and "trainyard: host-scan gpus" in drained, drained
    assert [line["found"] for line in report["lines"] if line["found"].startswith("drained")] == [
        f"drained: {BROKEN}",
        f"drained: none; already out of service: {BROKEN}",
    ]
    [used] = [one for one in report["used"] if one["where"] == "gpu/p5"]
    assert used["instance"] == "p5.48xlarge" and 0 < used["node_hours"] < 1 and used["usd"] > 0
    failed = lines(report, "failed")
    scan = failed["scan", BROKEN, "gpus"]
    assert scan["found"].startswith("simulated: 7 x ") and scan["wanted"].startswith("8 x ") and scan["action"]
    assert failed["hello-gpu", BROKEN, "does every GPU answer?"]["found"] == "simulated: 7 GPUs"
    assert "floor 250" in failed["nccl", "gpu/p5, 2 nodes", "all_reduce"]["found"]
    assert "floor 120" in failed["storage", "/fsx from gpu/p5", "throughput of Lustre"]["found"]
    assert "(NoSuchBucket)" in failed["s3", "gpu-dy-p5-1, gpu-dy-p5-2", "write to S3 and read"]["found"]
    assert any("7 GPUs, and there must be 8" in line["output"] for line in failed.values())
    # The healthy node passes, and the collectives that are fast enough.
    passed = lines(report, "passed")
    assert ("hello-gpu", "gpu-dy-p5-1", "does every GPU answer?") in passed
    assert ("nccl", "gpu/p5, 2 nodes", "alltoall") in passed


def test_idle_nodes_are_checked_at_night_and_a_bad_one_is_named(deployed: Validated) -> None:
    """What the timer starts, with a node that lacks a GPU and one that has a job."""
    lab = deployed.laboratory
    before = json.loads(lab.output(["cat", "/etc/lab/gpus.json"], node=BROKEN))
    job = lab.output(["sbatch", "--parsable", "--partition=gpu", "--nodelist=gpu-dy-p5-1", "--wrap=sleep 900"])
    lab.wait_for_job(job, states=("RUNNING",))
    try:
        with file_with(deployed, "/etc/lab/gpus.json", {"gpus": before["gpus"][:7]}, BROKEN):
            done = lab.run(["bash", "/opt/trainyard/current/validation/idle-nodes.sh"], user="root", check=False)
    finally:
        lab.output(["scancel", job])
    said = done.stdout + done.stderr
    assert done.returncode == 1 and f"bad nodes: {BROKEN} (host-scan gpus)" in said, said
    assert "host-scan on 1 idle nodes: FAILED" in said and "gpu-check on 1 idle nodes: FAILED" in said, said
    assert "host-scan on 2 idle nodes: COMPLETED" in said  # those without GPUs
    # By default bad nodes are reported, and stay in service.
    assert "drain" not in lab.output(["sinfo", "-h", "-N", "-o", "%n %t"])


def test_job_that_never_starts_fails_with_slurms_reason(deployed: Validated) -> None:
    lab = deployed.laboratory
    lab.run(["scontrol", "update", f"nodename={BROKEN}", "state=drain", "reason=no capacity"], user="root")
    try:
        report, _ = deployed.validate(1, "--only", "hello-gpu", "--start-minutes", "1")
    finally:
        resume(lab)
    [line] = lines(report, "failed").values()
    assert "pending for 1 min, Slurm's reason: " in line["found"] and "none" not in line["found"]
    assert "no capacity" in line["output"]
    assert lab.output(["squeue", "--noheader"]) == ""


def test_nodes_with_a_users_job_are_not_judged(deployed: Validated) -> None:
    lab = deployed.laboratory
    lab.output(["sbatch", "--partition=gpu", "--nodes=2", "--exclusive", "--job-name=mine", "--wrap=sleep 900"])
    try:
        report, _ = deployed.validate(0, "--skip", "scan,gpu-check,nccl,storage,s3", "--start-minutes", "1")
    finally:
        lab.output(["scancel", "--name=mine"])
    [line] = lines(report, "not asked").values()
    assert line["check"] == "hello-gpu" and line["found"] == "nodes are taken by other jobs, 1 min long"
    assert report["headline"].startswith("PASSED (simulated) on the head node alone")


def test_head_node_without_an_agent(deployed: Validated) -> None:
    Steer(deployed.emulator).agent("local", answers=False)
    try:
        report, text = deployed.validate(4, "--only", "head-scan")
    finally:
        Steer(deployed.emulator).agent("local", answers=True)
    assert not report
    assert "Systems Manager has no agent on the head node" in text and "Traceback" not in text


def test_document_takes_no_words_of_a_shell(deployed: Validated) -> None:
    ssm = deployed.client("ssm")
    name = ssm.get_parameter(Name="/trainyard/local/validation/document")["Parameter"]["Value"]
    head = ssm.get_parameter(Name="/trainyard/local/head-node/instance-id")["Parameter"]["Value"]
    for request in ("facts;id", "submit hello-gpu $(id)", "look 1 `id`", "Facts", "facts 'x y'"):
        with pytest.raises(ssm.exceptions.InvalidParameters):
            ssm.send_command(InstanceIds=[head], DocumentName=name, Parameters={"Request": [request]})

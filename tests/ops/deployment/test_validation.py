"""The command against a deployment to the emulated AWS, whose head node is that of a real Slurm."""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from local.control import Control
from local.slurm import Laboratory
from local.slurm.remote import LABORATORIES
from settings import load
from tests.ops.deployment.deployed import GPU_NODES, Deployed
from tests.ops.report.browser import Shown, picture, show
from tests.slurm.planted import FIGURES, file_with, gpus, hanging, interfaces, without_bucket

pytestmark = pytest.mark.e2e
SLOW, BROKEN, HOT, HANGS = (f"gpu-dy-p5-{number}" for number in (1, 2, 3, 4))
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
        assert "is not kept" not in done.stdout, done.stdout
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


def resume(lab: Laboratory, nodes: str = BROKEN) -> None:
    lab.run(["scontrol", "update", f"nodename={nodes}", "state=resume"], user="root")


def test_healthy_cluster_passes_and_no_job_is_left(deployed: Validated) -> None:
    report, _ = deployed.validate(0)
    assert not lines(report, "skipped")
    assert {
        ("hello-gpu", "gpu-dy-p5-1"), ("hello-gpu", BROKEN), ("gpu-check", BROKEN), ("scan", BROKEN),
        ("storage", "/fsx from gpu/p5"), ("scan", "cpu-dy-c7i-2"), ("nccl", "gpu/p5, 2 nodes"),
        ("s3", "gpu/p5"), ("s3", "cpu/c7i"),
    } <= {check[:2] for check in lines(report, "passed")}  # fmt: skip
    lab = deployed.laboratory
    assert lab.output(["squeue", "--noheader"]) == ""
    assert lab.output("ls -A /fsx/.tests") == ""


def test_planted_faults_are_found_and_drained(deployed: Validated, tmp_path: Path) -> None:
    """One of each kind, all at once: the report names them, and exactly the bad nodes are drained."""
    lab, file = deployed.laboratory, tmp_path / "validation.html"
    nodes = [node.name for node in lab.plan.compute if node.gpus]
    slow = {"collectives": dict.fromkeys(("all_reduce", "all_gather", "reduce_scatter"), 100)}
    slow["collectives"] |= {"broadcast": 150, "reduce": 150, "alltoall": 40}
    hot: dict[str, Any] = {"tflops": 512, "clocks_throttle_reasons.active": "0x0000000000000040"}
    with (
        interfaces(lab, SLOW),
        hanging(lab, HANGS),
        gpus(lab, BROKEN, shown=7),
        gpus(lab, HOT, **hot),
        file_with(lab, FIGURES, slow | {"mounts": {"/fsx": 90}}, *nodes),
        without_bucket(lab),
    ):
        options = ("--skip", "head-scan", "--nodes", "all", "--drain", "--format", "html", "--output", str(file))
        done = deployed.local.run("validate", *options)
        drained = lab.output(["sinfo", "-R", "-h", "-o", "%n %t %E"]).splitlines()
        resume(lab, ",".join(line.split()[0] for line in drained))
    assert done.returncode == 1 and "is not kept" not in done.stdout, done.stdout
    # The same report as JSON, which the history keeps.
    report = json.loads(lab.output("cat $(ls -d /fsx/results/validation/*/report.json | tail -n 1)"))
    page, failed = file.read_text(), lines(report, "failed")
    assert report["headline"] in page
    assert {(check, where) for check, where, _ in failed} == {
        *((check, BROKEN) for check in ("scan", "hello-gpu", "gpu-check", "gpu-burn")),
        *(("gpu-burn", HOT), ("pairs", SLOW), ("pairs", HANGS)),
        *(("nccl", "gpu/p5, 8 nodes"), ("storage", "/fsx from gpu/p5")),
        *(("s3", ", ".join(nodes)), ("s3", "cpu-dy-c7i-1, cpu-dy-c7i-2")),
    }, [(check, where, line["found"]) for (check, where, _), line in failed.items()]

    def found(check: str, where: str, asked: str) -> str:
        line = failed[check, where, asked]
        assert bool(line["simulated"]) == (check != "pairs") and line["action"]
        assert line["found"] in unescape(page)
        return line["found"]

    scan, burn, pair = "gpus", "which GPU is slow or faulty?", "which node or link is slow?"
    assert found("scan", BROKEN, scan).startswith("simulated: 7 x ") and failed["scan", BROKEN, scan]["action"]
    assert found("hello-gpu", BROKEN, "does every GPU answer?") == "simulated: 7 GPUs"
    assert found("gpu-burn", BROKEN, burn) == "simulated: 7 of 8 GPUs"
    of_a_gpu = found("gpu-burn", HOT, burn)
    assert of_a_gpu.startswith("simulated: GPU 0 (GPU-") and "512 TFLOP/s, 20 % below 640 of its peers" in of_a_gpu
    assert "throttled by heat (hardware) in 100 % of the readings" in of_a_gpu
    assert "slow with all nodes: " in found("pairs", SLOW, pair) and "% below its peers" in found("pairs", SLOW, pair)
    assert found("pairs", HANGS, pair).startswith("no answer")
    assert "floor 250" in found("nccl", "gpu/p5, 8 nodes", "all_reduce")
    assert "floor 120" in found("storage", "/fsx from gpu/p5", "throughput of Lustre")
    assert "(NoSuchBucket)" in found("s3", ", ".join(nodes), "write to S3 and read")
    # Healthy nodes pass, and the collectives that are fast enough.
    passed = lines(report, "passed")
    assert ("hello-gpu", SLOW, "does every GPU answer?") in passed and ("nccl", "gpu/p5, 8 nodes", "alltoall") in passed
    [used] = [one for one in report["used"] if one["where"] == "gpu/p5"]
    assert used["instance"] == "p5.48xlarge" and 0 < used["node_hours"] < 8 and used["usd"] > 0
    # One node of a job, or two of eight, are drained, each with its first reason.
    reasons = dict(zip(sorted((SLOW, BROKEN, HOT, HANGS)), sorted(drained), strict=True))
    for node, reason in {
        SLOW: "pair-test 0.00",
        BROKEN: "host-scan gpus",
        HOT: "gpu-burn GPU 0 ",
        HANGS: "pair-test no answer",
    }.items():
        assert reasons[node].startswith(f"{node} drain trainyard: {reason}"), drained
    # What a reviewer sees.
    for width, dark in ((1200, False), (390, True)):
        assert show(page, tmp_path, width, dark=dark) == Shown(page.count("<figure>"), True, width, dark)
    assert picture(file, 1200, 2400) == (1200, 2400)


def test_idle_nodes_are_checked_at_night_and_a_bad_one_is_named(deployed: Validated) -> None:
    """What the timer starts, with a node that lacks a GPU and one that has a job."""
    lab = deployed.laboratory
    job = lab.output(["sbatch", "--parsable", "--partition=gpu", "--nodelist=gpu-dy-p5-1", "--wrap=sleep 900"])
    lab.wait_for_job(job, states=("RUNNING",))
    try:
        with gpus(lab, BROKEN, shown=7):
            done = lab.run(["bash", "/opt/trainyard/current/validation/idle-nodes.sh"], user="root", check=False)
    finally:
        lab.output(["scancel", job])
    said = done.stdout + done.stderr
    assert done.returncode == 1 and f"bad nodes: {BROKEN} (host-scan gpus)" in said, said
    assert "host-scan on 7 idle nodes: FAILED" in said and "gpu-check on 7 idle nodes: FAILED" in said, said
    assert "host-scan on 2 idle nodes: COMPLETED" in said  # those without GPUs
    # By default bad nodes are reported, and stay in service.
    assert "drain" not in lab.output(["sinfo", "-h", "-N", "-o", "%n %t"])


def test_job_that_never_starts_fails_with_slurms_reason(deployed: Validated) -> None:
    lab = deployed.laboratory
    lab.run(["scontrol", "update", f"nodename={BROKEN}", "state=drain", "reason=no capacity"], user="root")
    try:
        report, _ = deployed.validate(1, "--only", "hello-gpu", "--nodes", "all", "--start-minutes", "0.2")
    finally:
        resume(lab)
    [line] = lines(report, "failed").values()
    assert "pending for 0.2 min, Slurm's reason: " in line["found"] and "none" not in line["found"]
    assert "no capacity" in line["output"]
    assert lab.output(["squeue", "--noheader"]) == ""


def test_nodes_with_a_users_job_are_not_judged(deployed: Validated) -> None:
    lab = deployed.laboratory
    lab.output(
        ["sbatch", "--partition=gpu", f"--nodes={GPU_NODES}", "--exclusive", "--job-name=mine", "--wrap=sleep 900"]
    )
    try:
        report, _ = deployed.validate(0, "--skip", "scan,gpu-check,nccl,storage,s3", "--start-minutes", "0.2")
    finally:
        lab.output(["scancel", "--name=mine"])
    [line] = lines(report, "skipped").values()
    assert line["check"] == "hello-gpu" and line["found"] == "nodes are taken by other jobs, 0.2 min long"
    assert report["headline"].startswith("PASSED (simulated) on the head node alone")


def test_head_node_without_an_agent(deployed: Validated) -> None:
    Control(deployed.emulator).agent("local", answers=False)
    try:
        report, text = deployed.validate(4, "--only", "head-scan")
    finally:
        Control(deployed.emulator).agent("local", answers=True)
    assert not report
    assert "Systems Manager has no agent on the head node" in text and "Traceback" not in text


def test_document_takes_no_words_of_a_shell(deployed: Validated) -> None:
    ssm = deployed.client("ssm")
    name = ssm.get_parameter(Name="/trainyard/local/validation/document")["Parameter"]["Value"]
    head = ssm.get_parameter(Name="/trainyard/local/head-node/instance-id")["Parameter"]["Value"]
    for request in ("facts;id", "submit hello-gpu $(id)", "look 1 `id`", "Facts", "facts 'x y'"):
        with pytest.raises(ssm.exceptions.InvalidParameters):
            ssm.send_command(InstanceIds=[head], DocumentName=name, Parameters={"Request": [request]})

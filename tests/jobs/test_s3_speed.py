"""Copies to S3 and back with a stand-in of the AWS CLI, and the verdict on planted faults."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from settings import environment_file, load
from settings.lifecycle import Expiring, expiring
from tests.jobs.conftest import JOBS
from tests.stubs import fake_command

FILE = JOBS / "lib" / "s3_speed.py"
ROOT = Path(__file__).parents[2]
# awscli 1.46's messages; what each node meets is in its name.
AWS = """
import sys, time
arguments = " ".join(sys.argv)
if "denied" in arguments:
    sys.exit(f"upload failed: {sys.argv[-2]} to {sys.argv[-1]} An error occurred (AccessDenied) when calling the "
             f"PutObject operation: User: arn:aws:sts::1:assumed-role/r/i-0123456789abcdef{len(arguments)} is not")
if "unreachable" in arguments:
    key = sys.argv[-1].split("/", 3)[-1]
    sys.exit(f'upload failed: Could not connect to the endpoint URL: "https://b.s3.x.amazonaws.com/{key}"')
time.sleep(60 if "hangs" in arguments else 0)
"""


def run(*words: str | Path, path: Path = Path("/nonexistent")) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, FILE, *words], capture_output=True, text=True, check=False, env={"PATH": str(path)}
    )
    return done.returncode, done.stdout + done.stderr


def measured(folder: Path, node: str) -> dict[str, Any]:
    fake_command(folder / "bin" / "aws", f"#!{sys.executable}\n{AWS}")
    target = f"s3://bucket/tmp/validation/7/{node}"
    limit = "0.5" if node == "hangs" else "20"
    _, text = run(
        "measure", target, "--region", "x", "--procs", "3", "--mib", "2", "--limit", limit, path=folder / "bin"
    )
    report: dict[str, Any] = json.loads(text)
    return report


def judged(folder: Path, nodes: dict[str, Any]) -> tuple[bool, dict[str, Any], str]:
    (folder / "nodes").write_text("\n".join(nodes))
    for node, report in nodes.items():
        (folder / f"{node}.txt").write_text(report if isinstance(report, str) else f"a warning\n{json.dumps(report)}\n")
    status, text = run("verdict", folder)
    return status == 0, json.loads((folder / "verdict.json").read_text()), text


def test_measured_faults_are_named_with_their_nodes(tmp_path: Path) -> None:
    nodes = {name: measured(tmp_path, name) for name in ("n1", "hangs", "denied-1", "denied-20", "unreachable-5")}
    assert nodes["n1"]["write"] > 0 and nodes["n1"]["read"] > 0 and "error" not in nodes["n1"]
    passed, found, text = judged(tmp_path, {**nodes, "gone": "srun: error\n# srun ended with status 124\n"})
    assert not passed and found["nodes"] == 6
    assert [line.partition(" An error")[0] for line in text.splitlines() if "FAILED" in line] == [
        "FAILED hangs: write: not done in 0.5 s",
        "FAILED denied-1 denied-20: write: upload failed: FILE to OBJECT",
        'FAILED unreachable-5: write: upload failed: Could not connect to the endpoint URL: "https://b.s3.x.amazonaws.com/OBJECT"',
        "FAILED gone: did not answer: # srun ended with status 124",
    ]
    assert {fault["kind"] for fault in found["faults"]} == {"error", "silent"}


def test_without_the_aws_cli(tmp_path: Path) -> None:
    status, text = run("measure", "s3://b/k", "--mib", "1", path=tmp_path)
    assert (status, json.loads(text)) == (
        1,
        {"error": "write: no aws in PATH: install the AWS CLI, or use an official ParallelCluster AMI"},
    )


@pytest.mark.parametrize("slow", [None, "n2"])
def test_a_slow_node_is_named(tmp_path: Path, slow: str | None) -> None:
    """Healthy nodes may differ by tens of per cent."""
    rates = {"n1": 2.0, "n2": 1.4, "n3": 2.2, "n4": 1.2}
    nodes = {name: {"write": rate, "read": rate * (0.3 if name == slow else 1)} for name, rate in rates.items()}
    passed, found, text = judged(tmp_path, nodes)
    assert passed is (slow is None) and found["all"]["write"] == 6.8 and found["peers"]["write"] == 2.0
    assert [fault["nodes"] for fault in found["faults"]] == ([["n2"]] if slow else [])
    assert ("FAILED n2: read 0.42 GB/s, less than 50% of 2 of its peers" in text) is bool(slow)


def test_objects_expire_because_nodes_may_not_delete_them() -> None:
    """The job writes under a prefix of the checkpoint bucket that has a lifecycle rule in every environment."""
    template = json.loads((ROOT / "tests/golden/jakarta-80xp5e/cluster.template.json").read_text())
    [policy] = [
        one["Properties"]["PolicyDocument"]["Statement"]
        for one in template["Resources"].values()
        if one.get("Properties", {}).get("Description", "").startswith("Compute nodes")
    ]
    [adds] = [statement for statement in policy if "s3:PutObject" in statement["Action"]]
    assert "Checkpoints" in json.dumps(adds["Resource"]) and "DeleteObject" not in json.dumps(policy)
    prefixes = set(re.findall(r"s3://\$\{bucket\}/(\w+/)", (JOBS / "s3-test.sbatch").read_text()))
    assert prefixes == {"tmp/"}
    assert Expiring("tmp/", "temporary") in expiring(load(environment_file("jakarta-80xp5e")))

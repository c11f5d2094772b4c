"""`trainyard logs` on the emulated CloudWatch Logs, with a user who has the listed permissions and no others."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ops.logs import ACTIONS, TOPICS
from ops.support_bundle import ACTIONS as BUNDLE
from tests.observability.test_support_bundle import contents
from tests.ops.deployment.deployed import Deployed
from tests.ops.preflight.emulated import Emulated

pytestmark = pytest.mark.e2e
INSTANCE = "i-0bbbbbbbbbbbbbbbb"


def test_logs_of_a_deployed_cluster(deployment: Deployed) -> None:
    """What agents would send is sent by the test: nothing boots here. The handler's lines are its own."""
    logs, now = deployment.client("logs"), int(time.time() * 1000)
    [group] = logs.describe_log_groups(logGroupNamePrefix="/aws/parallelcluster/local-")["logGroups"]
    sent = {
        f"ip-10-0-0-2.{INSTANCE}.slurmd": "slurmd started",
        "job__var_log_trainyard_jobs_fsx+logs+hello-gpu-7.out": "8 GPUs",
    }
    for name, text in sent.items():
        logs.create_log_stream(logGroupName=group["logGroupName"], logStreamName=name)
        events = [{"timestamp": now, "message": text}]
        logs.put_log_events(logGroupName=group["logGroupName"], logStreamName=name, logEvents=events)
    node = {"Id": {"S": "gpu-dy-p5-1"}, "InstanceId": {"S": INSTANCE}}
    deployment.client("dynamodb").put_item(TableName="parallelcluster-slurm-local", Item=node)

    keys = Emulated(deployment.emulator, deployment.local.file).user(*ACTIONS)

    def shown(*options: str) -> str:
        done = deployment.local.on_aws("logs", *options, **keys)
        assert done.returncode == 0, done.stdout
        return done.stdout

    assert "gpu-dy-p5-1 slurmd: slurmd started\n" in shown("slurm", "--node", "gpu-dy-p5-1")
    assert "job: 8 GPUs\n" in shown("--job", "7")
    assert " handler: " in shown("--since", "1d")
    assert " handler: " in deployment.local.ok("logs", "--since", "1d")
    unknown = deployment.local.run("logs", "--job", "8")
    assert unknown.returncode == 4 and "No output of job 8" in unknown.stdout and "Traceback" not in unknown.stdout


def test_bundle_of_a_deployed_cluster(lab_machine: None, deployment: Deployed, tmp_path: Path) -> None:  # noqa: ARG001
    """With the listed permissions every part is collected; the head node is that of a real Slurm."""
    keys = Emulated(deployment.emulator, deployment.local.file).user(*BUNDLE)
    target = tmp_path / "bundle.tar.gz"
    done = deployment.local.on_aws("support-bundle", "--output", str(target), **keys)
    assert done.returncode == 0 and "Not collected" not in done.stdout, done.stdout
    found = contents(target)
    assert {"slurm.txt", "stacks.json", "status.txt", *(f"logs/{topic}.log" for topic in TOPICS)} <= set(found)
    assert "$ sdiag\n" in found["slurm.txt"] and "gpu-dy-p5-" in found["slurm.txt"]
    assert '"StackName": "local-cluster"' in found["stacks.json"]
    assert "CREATE_COMPLETE, ParallelCluster 3." in found["status.txt"]
    assert " handler: " in found["logs/cluster.log"]
    whole = "".join(found.values())
    assert not [secret for secret in (*keys.values(), "X-Amz-Signature=") if secret in whole]
    # The laboratory runs now.
    assert " head slurmctld: " in deployment.local.ok("logs", "slurm", "--since", "1d")
    assert " gpu-dy-p5-1 bootstrap: " in deployment.local.ok("logs", "--node", "gpu-dy-p5-1", "--since", "1d")

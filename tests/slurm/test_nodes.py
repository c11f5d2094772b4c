"""Nodes that lose power and come back, disks that are full, and what a node looks like to scripts."""

from __future__ import annotations

import time

import pytest

from local.slurm import Laboratory
from trainyard.cluster_config.rendering import LONG_GPU_CHECK

TOKEN = (
    'token="$(curl -sf -X PUT -H "X-aws-ec2-metadata-token-ttl-seconds: 60" http://169.254.169.254/latest/api/token)"'
)


def test_a_job_is_requeued_when_its_node_loses_power(lab: Laboratory) -> None:
    script = "#!/bin/bash\necho $(hostname) >>/fsx/requeued\n[[ ${SLURM_RESTART_COUNT:-0} -ge 1 ]] || sleep 300\n"
    lab.write("/home/ubuntu/requeued.sh", script)
    job = lab.output(["sbatch", "--parsable", "-N1", "--requeue", "--output=/dev/null", "requeued.sh"])
    try:
        lab.wait(lambda: lab.path("/fsx/requeued").exists(), f"job {job} to start")
        victim = lab.output("cat /fsx/requeued")
        lab.kill(victim)
        lab.wait_for_nodes(victim, states=("down", "down*"))
        found = lab.wait_for_job(job)
        assert found["Restarts"] == "1"
        first, second = lab.output("cat /fsx/requeued").split()
        assert first == victim
        assert second != victim
        lab.start(victim)
        assert lab.output(["srun", "-w", victim, "hostname"]) == victim
    finally:
        lab.run(["rm", "-f", "/fsx/requeued"])
        lab.run(["scancel", job], check=False)


# ParallelCluster's BatchStartTimeout in seconds (aws-parallelcluster-cookbook f75d84c, slurm.conf.erb), and how many
# times shorter the timeouts are here. Slurm adds MessageTimeout, 10 s at most, and compares when the node registers.
GENUINE, FASTER = 180, 12
REGISTRATION, CHECK = GENUINE // FASTER + 10 + 5, 50


@pytest.mark.parametrize(
    ("timeout", "restarts"), [(GENUINE, "1"), (int(LONG_GPU_CHECK["BatchStartTimeout"]), "0")], ids=["genuine", "ours"]
)
def test_a_long_gpu_check_does_not_requeue_the_job(lab: Laboratory, timeout: int, restarts: str) -> None:
    """The node registers during the check, after the genuine timeout and before ours."""
    prolog, conf = "/opt/slurm/etc/scripts/prolog.d/90_check", lab.path("/opt/slurm/etc/slurm.conf")
    before = conf.read_text()
    try:
        lab.write(prolog, f"#!/bin/bash\nsleep {CHECK}\n", user="root", mode=0o755)
        conf.write_text(before.replace(f"BatchStartTimeout={GENUINE}", f"BatchStartTimeout={timeout // FASTER}"))
        lab.run(["scontrol", "reconfigure"], user="root")
        job = lab.output(["sbatch", "--parsable", "-N1", "--output=/dev/null", "--wrap=true"])
        lab.wait_for_job(job, states=("RUNNING",))
        time.sleep(REGISTRATION)
        # The node registers once its running prologs end, or after 10 s. Once only: slurmd's SIGHUP can interrupt the
        # poll of a prolog, and Slurm 22.05 then kills the prolog and drains the node.
        lab.run(["scontrol", "reconfigure"], user="root")

        def ended() -> bool:
            found = lab.job(job)
            return found["Restarts"] != "0" or found["JobState"] == "COMPLETED"

        lab.wait(ended, f"the end of job {job} or of its first attempt")
        assert lab.job(job)["Restarts"] == restarts
    finally:
        lab.run("scancel --me", check=False)
        lab.run(["rm", prolog], user="root")
        conf.write_text(before)
        lab.wait(lambda: not lab.output("squeue -h"), "the end of the cancelled job")
        lab.run(["scontrol", "reconfigure"], user="root")
        lab.run(
            "scontrol update nodename=$(sinfo -hN -t drain -o %N | paste -sd,) state=resume", user="root", check=False
        )
        lab.wait_for_nodes(states=("idle",))


def test_a_replaced_node_is_empty_and_the_shares_are_not(lab: Laboratory) -> None:
    node = "gpu-dy-p5-4"
    lab.run(["touch", "/scratch/mine", "/root/mine"], node=node, user="root")
    lab.run(["touch", "/fsx/ours"])
    lab.kill(node)
    lab.start(node)
    assert lab.run(["ls", "/scratch/mine", "/root/mine"], node=node, user="root", check=False).stdout == ""
    lab.run(["rm", "/fsx/ours"], node=node)


def test_shares_are_the_same_files_on_every_node_and_scratch_is_not(lab: Laboratory) -> None:
    lab.write("/fsx/one/two", "shared\n")
    assert {lab.output("cat /fsx/one/two", node=node.name) for node in lab.plan.compute} == {"shared"}
    lab.run(["touch", "/scratch/here"], node="gpu-dy-p5-1")
    assert lab.run(["test", "-e", "/scratch/here"], node="gpu-dy-p5-2", check=False).returncode == 1
    lab.run("rm -r /fsx/one && for one in /fsx /home /shared /opt/slurm; do mountpoint $one || exit; done")


def test_instance_metadata_wants_a_token_and_knows_the_node(lab: Laboratory) -> None:
    path = "http://169.254.169.254/latest/meta-data/instance-type"
    assert lab.run(["curl", "-sf", path], node="gpu-dy-p5-1", check=False).returncode != 0
    get = f'{TOKEN}; curl -sf -H "X-aws-ec2-metadata-token: $token" {path}'
    assert lab.output(get, node="gpu-dy-p5-1") == "p5.48xlarge"
    assert lab.output(get, node="head") == lab.plan.head.instance_type


def test_gpus_of_a_node_and_of_the_head(lab: Laboratory) -> None:
    fields = "index,name,memory.total,ecc.errors.uncorrected.volatile.total"
    query = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    rows = lab.output(query, node="gpu-dy-p5-1").splitlines()
    assert rows[7] == "7, NVIDIA H100 80GB HBM3 (simulated), 81920, 0"
    assert len(rows) == 8
    assert lab.run("command -v nvidia-smi", check=False).returncode != 0


def test_nodes_share_the_buckets(lab: Laboratory) -> None:
    bucket = lab.plan.buckets["checkpoints"]
    lab.write("/home/ubuntu/final", "weights\n")
    lab.run(f"aws s3 cp --only-show-errors final s3://{bucket}/model/final")
    assert lab.output(f"aws s3 cp s3://{bucket}/model/final -", node="gpu-dy-p5-2") == "weights"

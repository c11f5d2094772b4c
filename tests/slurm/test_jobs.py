"""Jobs of several nodes: ranks, host names, addresses, GPUs, accounting."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

import pytest

from local.slurm import Laboratory
from trainyard.cluster_bundle import ASSETS

# One line of JSON a task: what Slurm and the node say.
TASK = """
import json, os, socket
print(json.dumps({
    "rank": int(os.environ["SLURM_PROCID"]), "local": int(os.environ["SLURM_LOCALID"]),
    "tasks": int(os.environ["SLURM_NTASKS"]),
    "node": int(os.environ["SLURM_NODEID"]), "host": socket.gethostname(),
    "address": socket.gethostbyname(socket.gethostname()),
    "gpus": os.environ.get("CUDA_VISIBLE_DEVICES"), "user": os.getuid(), "job": os.environ["SLURM_JOB_ID"],
}))
"""


def tasks_of(lab: Laboratory, *options: str) -> list[dict[str, Any]]:
    """What every task of an srun says, by rank."""
    lines = lab.output(["srun", *options, "python3", "-c", TASK]).splitlines()
    return sorted((json.loads(line) for line in lines), key=lambda task: task["rank"])


@pytest.mark.parametrize("nodes", [2, 4])
def test_ranks_hosts_and_addresses(lab: Laboratory, nodes: int) -> None:
    tasks = tasks_of(lab, f"-N{nodes}", "--ntasks-per-node=8", "--gpus-per-node=8")
    machines = {node.name: node.address for node in lab.plan.compute}
    assert [task["rank"] for task in tasks] == list(range(8 * nodes))
    assert all(task["local"] == task["rank"] % 8 and task["node"] == task["rank"] // 8 for task in tasks)
    assert all(task["tasks"] == 8 * nodes for task in tasks)
    assert len({task["host"] for task in tasks}) == nodes
    for number in range(nodes):
        hosts = {task["host"] for task in tasks if task["node"] == number}
        assert len(hosts) == 1, f"the ranks of node {number} are spread over {hosts}"
    assert all(machines[task["host"]] == task["address"] for task in tasks)
    assert {task["gpus"] for task in tasks} == {"0,1,2,3,4,5,6,7"}
    assert {task["user"] for task in tasks} == {1000}


def test_each_task_gets_a_gpu_of_its_own(lab: Laboratory) -> None:
    script = 'echo "$SLURM_LOCALID $(nvidia-smi --query-gpu=index,uuid --format=csv,noheader)"'
    lines = lab.output(["srun", "-N2", "--ntasks-per-node=8", "--gpus-per-task=1", "bash", "-c", script]).splitlines()
    found = [line.replace(",", "").split() for line in lines]
    assert len(found) == 16
    assert all(len(words) == 3 for words in found), "a task sees more or fewer GPUs than its one"
    assert all(local == index for local, index, _ in found)
    assert len({uuid for _, _, uuid in found}) == 16


def test_a_job_without_gpus_sees_none(lab: Laboratory) -> None:
    result = lab.run(["srun", "-n1", "nvidia-smi", "-L"], check=False)
    assert result.returncode != 0
    assert "No devices were found" in result.stdout


def test_partition_and_nodes_are_named_and_sized_as_parallelcluster_does(lab: Laboratory) -> None:
    line = lab.output(["sinfo", "-h", "-p", "gpu", "-o", "%N|%c|%G|%f"])
    names, cpus, gres, features = line.split("|")
    assert names == "gpu-dy-p5-[1-4]"
    assert cpus == "192"
    assert gres == "gpu:h100:8"
    assert features == "dynamic,p5.48xlarge,p5,efa,gpu"


def test_accounting_has_the_job_its_steps_and_its_gpus(lab: Laboratory) -> None:
    lab.write("/home/ubuntu/account.sh", "#!/bin/bash\nsrun -N2 --ntasks-per-node=8 true\n")
    job = lab.output(
        ["sbatch", "--parsable", "-N2", "--gpus-per-node=8", "--job-name=account", "--output=/dev/null", "account.sh"]
    )
    lab.wait_for_job(job)
    sacct = ["sacct", "-nPj", job, "-o", "jobid,jobname,state,nnodes,alloctres"]
    # slurmctld sends the job's record up to 5 s after those of its steps; until then its name is "allocation".
    lab.wait(lambda: f"{job}|account|COMPLETED|2|" in lab.output(sacct), f"job {job} in sacct")
    records = {line.split("|")[0]: line for line in lab.output(sacct).splitlines()}
    assert set(records) == {job, f"{job}.batch", f"{job}.0"}
    assert all("|COMPLETED|" in record for record in records.values())
    assert "gres/gpu=16" in records[job] and "cpu=384" in records[job]


def test_a_failed_step_fails_the_command(lab: Laboratory) -> None:
    assert lab.run(["srun", "-N2", "bash", "-c", "exit $((SLURM_PROCID * 3))"], check=False).returncode == 3


def test_pmix_starts(lab: Laboratory) -> None:
    ranks = lab.output(["srun", "--mpi=pmix", "-N2", "--ntasks-per-node=2", "sh", "-c", "echo $PMIX_RANK"]).split()
    assert sorted(ranks) == ["0", "1", "2", "3"]


def test_prolog_and_epilog_run_on_every_node(lab: Laboratory) -> None:
    for phase in ("prolog", "epilog"):
        script = f"#!/bin/bash\necho {phase} $SLURM_JOB_ID >>/fsx/phases-$(hostname)\n"
        lab.write(f"/opt/slurm/etc/scripts/{phase}.d/50_test", script, user="root", mode=0o755)
    try:
        job = lab.output(["sbatch", "--parsable", "-N2", "--output=/dev/null", "--wrap", "srun true"])
        found = lab.wait_for_job(job)

        def phases(file: str, expected: list[str]) -> bool:
            return lab.output(["cat", file]).splitlines() == expected

        expected = [f"prolog {job}", f"epilog {job}"]
        names = lab.output(["scontrol", "show", "hostnames", found["NodeList"]]).split()
        assert len(names) == 2
        for name in names:
            file = f"/fsx/phases-{name}"
            lab.wait(partial(phases, file, expected), f"prolog and epilog on {name}")
    finally:
        lab.run("rm -f /opt/slurm/etc/scripts/*.d/50_test /fsx/phases-*", user="root")


def test_job_is_the_label_of_its_gpus(lab: Laboratory) -> None:
    """By Slurm's own prolog and epilog, with the script and the folders that steps/metrics.sh installs."""
    node, text = "gpu-dy-p5-3", (ASSETS / "monitoring/job-labels.sh").read_text()
    metrics, jobs = "/var/lib/trainyard/metrics", "/run/trainyard/gpu-jobs"
    for phase in ("prolog", "epilog"):
        lab.write(f"/opt/slurm/etc/scripts/{phase}.d/20_labels", text, user="root", mode=0o755)
    lab.run(["mkdir", "-p", metrics, jobs], node=node, user="root")

    def holders() -> list[str]:
        return lab.output(f"cat {jobs}/* 2>/dev/null || true", node=node).split()

    try:
        options = ["-w", node, "--gpus-per-node=8", "--comment=experiment=llama-7b", "--output=/dev/null"]
        job = lab.output(["sbatch", "--parsable", *options, "--wrap=sleep 900"])
        lab.wait(lambda: holders() == [job] * 8, f"the GPUs of job {job}")
        lines = lab.output(["cat", f"{metrics}/job-{job}.prom"], node=node).splitlines()
        labels = rf'job="{job}",user="ubuntu",account="[^"]*",experiment="llama-7b",gpu="7"'
        assert re.fullmatch(rf"trainyard_job_info{{{labels}}} 1", lines[-1]), lines
        assert len([line for line in lines if not line.startswith("#")]) == 8
        lab.run(["scancel", job])
        lab.wait(lambda: not holders(), f"the epilog of job {job}")
        lab.wait(lambda: not lab.output(["ls", metrics], node=node), f"the end of the series of job {job}")
    finally:
        lab.run("scancel --me", check=False)
        lab.run("rm -f /opt/slurm/etc/scripts/*.d/20_labels", user="root")
        lab.wait_for_nodes(node, states=("idle",))


def test_test_only_judges_by_the_whole_cluster(lab: Laboratory) -> None:
    """The queue `cpu` has two nodes in the environment and none that runs here."""
    line = ["sbatch", "--test-only", "-p", "cpu", "--wrap", "true"]
    assert "cpu-dy-c7i-[1-2]" in lab.run([*line, "-N2"]).stderr
    refused = lab.run([*line, "-N3"], check=False)
    assert refused.returncode != 0
    # As EnforcePartLimits=ALL has it, which ParallelCluster sets.
    assert "Node count specification invalid" in refused.stderr
    assert lab.output(["sinfo", "-h", "-p", "cpu", "-o", "%t"]) == "idle~"

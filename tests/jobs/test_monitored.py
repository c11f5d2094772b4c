"""What monitoring sees of a training job on a real Slurm: its progress on the head node, and a mail for its user."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable

from local.slurm import Laboratory
from tests.jobs.test_production import TRAIN, submit
from tests.observability.test_slurm_exporter import Samples, samples

ADDRESS = "10.0.16.10:9101"
EXPORTER = "/opt/trainyard/current/monitoring/slurm-exporter.py"
MAILS = "/var/spool/trainyard/mail"


def test_the_head_node_serves_the_progress_of_a_training_job(lab: Laboratory, jobs: str) -> None:
    """The exporter has no rights of its own: another user runs it. The environment is not monitored here, so the
    test does what the step does.
    """
    folder = f"{lab.plan.settings()['bases']['shared']}/monitoring/jobs"  # type: ignore[index]
    lab.run(f"mkdir -p {folder} && chmod 1777 {folder} && install -d -o slurm -m 700 {MAILS}", user="root")
    words = f"--nodes 2 --procs 1 --experiment watched --notify BEGIN -- {TRAIN} --steps 5000 --every 5000 --report 1"
    job = submit(lab, f"{jobs}/train-fsdp.sbatch {words} --step-seconds 0.2")
    line = lab.line(["python3", EXPORTER, "--listen", ADDRESS, "--interval", "1", "--jobs", folder], user="grace")
    exporter = subprocess.Popen(line, cwd="/", stdout=subprocess.DEVNULL)
    try:
        found = until(lab, lambda page: "training_loss{" in page and page.count("training_rank_step{") == 2)
        assert (job, "fsdp", "ubuntu", "pcdefault", "gpu-queue", "watched") in found["slurm_job_info"]
        nodes = [node for number, node in found["slurm_job_node"] if number == job]
        assert len(nodes) == 2 and found["slurm_job_gpus"][job,] == 16
        assert {(job, str(rank), node) for rank, node in enumerate(nodes)} == found["training_rank_step"].keys()
        assert found["training_step"][job,] > 0 < found["training_tokens_per_second"][job,]
        assert abs(found["training_last_step_time_seconds"][job,] - time.time()) < 600
        mails = lab.output(f"cat {MAILS}/job-{job}.*.json", user="root")
        assert json.loads(mails)["MessageAttributes"]["user"]["StringValue"] == "ubuntu"
        lab.run(["scancel", job])
        until(
            lab,
            lambda page: (
                "slurm_up 1" in page and f'slurm_job_info{{job="{job}"' not in page and "training_" not in page
            ),
        )
    finally:
        lab.run(["pkill", "-f", EXPORTER], user="root", check=False)
        exporter.wait(60)
        lab.run(["scancel", job], check=False)
        lab.run(f"rm -rf {MAILS} {folder}", user="root")


def until(lab: Laboratory, seen: Callable[[str], bool]) -> Samples:
    """The samples of the first page that satisfies a condition."""
    page = ""

    def looked() -> bool:
        nonlocal page
        page = lab.run(["curl", "-s", f"http://{ADDRESS}/metrics"], check=False).stdout
        return seen(page)

    lab.wait(looked, "the page of the exporter", seconds=600)
    return samples(page)

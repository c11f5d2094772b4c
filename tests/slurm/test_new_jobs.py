"""The script of the document NewJobs on a real slurmctld: jobs wait, running ones go on, and the way back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from local.slurm import Laboratory
from trainyard.head_node_documents import NEW_JOBS

SCRIPT = "/root/new-jobs.sh"


def carry_out(lab: Laboratory, action: str) -> list[str]:
    """As the agent of Systems Manager: as root, with the parameter put in. Returns the partitions that changed."""
    script = NEW_JOBS.read_text("utf-8").replace("{{ Action }}", action)
    lab.write(SCRIPT, script, user="root")
    return [name for name in lab.output(["bash", SCRIPT], user="root").strip().split(",") if name]


def states(lab: Laboratory) -> dict[str, str]:
    lines = lab.output(["scontrol", "show", "partition", "--oneliner"]).splitlines()
    fields = [dict(word.partition("=")[::2] for word in line.split() if "=" in word) for line in lines if line]
    return {one["PartitionName"]: one["State"] for one in fields}


def submit(lab: Laboratory, command: str) -> str:
    return lab.output(["sbatch", "--parsable", "-p", "gpu", "-N1", "--output=/dev/null", "--wrap", command])


@pytest.fixture
def stoppable(lab: Laboratory) -> Iterator[Laboratory]:
    """The shared laboratory, whose partitions are UP again after the test."""
    yield lab
    for partition in states(lab):
        lab.run(["scontrol", "update", f"PartitionName={partition}", "State=UP"], user="root")
    lab.run(["rm", "-f", "/var/lib/trainyard/new-jobs-stopped"], user="root")


def test_no_new_job_starts_running_ones_end_normally_and_resume_starts_the_rest(stoppable: Laboratory) -> None:
    lab = stoppable
    running = submit(lab, "while [ ! -e /home/ubuntu/end-running ]; do sleep 0.2; done")
    lab.wait(lambda: lab.job(running)["JobState"] == "RUNNING", "the first job runs")
    # A partition that an administrator has taken out of service.
    lab.run(["scontrol", "update", "PartitionName=cpu", "State=DOWN"], user="root")

    assert carry_out(lab, "stop") == ["gpu"]
    assert carry_out(lab, "stop") == []  # a repeated command changes nothing
    waiting = submit(lab, "true")
    lab.wait(lambda: lab.job(waiting).get("Reason") == "PartitionDown", "the new job waits for its partition")
    assert lab.job(running)["JobState"] == "RUNNING"
    lab.run(["touch", "/home/ubuntu/end-running"])
    lab.wait_for_job(running)
    assert lab.job(running)["JobState"] == "COMPLETED"
    assert lab.job(waiting)["JobState"] == "PENDING"

    assert carry_out(lab, "resume") == ["gpu"]
    lab.wait_for_job(waiting)
    assert lab.job(waiting)["JobState"] == "COMPLETED"
    assert states(lab) == {"gpu": "UP", "cpu": "DOWN"}  # the administrator's partition stays as it was
    assert carry_out(lab, "resume") == []


def test_partitions_that_somebody_sets_up_are_set_down_the_next_hour_and_resume_knows_them(
    stoppable: Laboratory,
) -> None:
    """ParallelCluster sets all UP when the fleet starts (aws-parallelcluster-node, fleet_status_manager.py)."""
    assert carry_out(stoppable, "stop") == ["gpu", "cpu"]
    stoppable.run(["scontrol", "update", "PartitionName=gpu", "State=UP"], user="root")
    assert carry_out(stoppable, "stop") == ["gpu"]
    assert carry_out(stoppable, "resume") == ["gpu", "cpu"]
    assert set(states(stoppable).values()) == {"UP"}

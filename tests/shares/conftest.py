"""A laboratory with three teams."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from local.slurm import Laboratory, Timeouts, make
from settings import load
from settings.shares import shares
from tests.slurm.conftest import ENVIRONMENT, lab_machine, running
from trainyard import cluster_bundle

__all__ = ["lab_machine"]

SHARES: dict[str, Any] = {
    "teams": [
        {"name": "nlp", "share": 2},
        {"name": "vision", "share": 1, "max_gpus": 12, "max_gpus_per_user": 8},
        {"name": "speech", "share": 1, "qos": ["normal"]},
    ],
    "qos": [
        {"name": "normal", "grace_seconds": 10},
        {"name": "urgent", "priority": 100, "preempts": ["normal"], "max_gpus_per_user": 16, "max_hours": 24},
        {"name": "interactive", "priority": 10, "max_jobs_per_user": 1},
    ],
}
USERS: list[dict[str, Any]] = [
    {"name": "ada", "teams": ["nlp"], "administrator": True},
    {"name": "grace", "teams": ["vision", "nlp"], "administrator": False},
    {"name": "alan", "teams": ["speech"], "administrator": False},
]
PROGRAM = "/root/people/apply_shares.py"


class Cluster:
    """The laboratory, and apply_shares.py on its head node."""

    def __init__(self, lab: Laboratory, people: dict[str, Any]) -> None:
        self.lab, self.people = lab, people

    def shares(self, mode: str, **changes: object) -> tuple[int, dict[str, Any], str]:
        """Run apply_shares.py on the people, changed by `changes`: its status, its plan and its stderr."""
        self.lab.write("/root/people.json", json.dumps(self.people | changes), user="root")
        done = self.lab.run(["python3", PROGRAM, "/root/people.json", mode], user="root", check=False)
        return done.returncode, json.loads(done.stdout or "{}"), done.stderr

    def submit(self, user: str, *options: str, seconds: float = 0, script: str = "") -> str:
        """Submit a job of one user; returns its id."""
        body = script or f"sleep {seconds}"
        words = ["sbatch", "--parsable", "--partition=gpu", "--time=30", "--output=%j.out", "--open-mode=append"]
        return self.lab.run([*words, *options], user=user, stdin=f"#!/bin/bash\n{body}\n").stdout.strip()

    def refused(self, user: str, *options: str) -> str:
        """Slurm's reason to refuse a job."""
        words = ["sbatch", "--partition=gpu", *options, "--wrap=true"]
        done = self.lab.run(words, user=user, check=False)
        assert done.returncode, done.stdout
        return done.stderr

    def reason(self, job: str) -> str:
        return self.lab.job(job).get("Reason", "")

    def sacct(self, *jobs: str, fields: str = "JobID,Account,QOS,State,NodeList") -> list[dict[str, str]]:
        """The records of jobs, every run of a requeued job apart."""
        words = ["sacct", "-D", "-X", "-P", "--starttime=now-1hour", f"--jobs={','.join(jobs)}", f"--format={fields}"]
        head, *lines = self.lab.output(words, user="root").splitlines()
        return [dict(zip(head.split("|"), line.split("|"), strict=True)) for line in lines]

    def usage(self) -> dict[str, Mapping[str, str]]:
        """`sshare` of the teams."""
        head, *lines = self.lab.output(
            "sshare -a -P -o Account,User,RawShares,RawUsage,LevelFS,FairShare", user="root"
        ).splitlines()
        rows = [dict(zip(head.split("|"), line.split("|"), strict=True)) for line in lines]
        return {f"{row['Account'].strip()}/{row['User']}": row for row in rows}


@pytest.fixture(scope="session")
def cluster(lab_machine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:  # noqa: ARG001 -- a fixture that asks for another
    """Two nodes of eight GPUs that jobs share, on Slurm 24.11, three teams, and the cluster's user, for all tests."""
    folder = tmp_path_factory.mktemp("teams")
    data = yaml.safe_load(ENVIRONMENT.read_text("utf-8")) | SHARES
    data["cluster"]["slurm"] |= {"accounting": True, "memory_scheduling": True}
    data["cluster"]["queues"][0]["exclusive"] = False
    (folder / "shared.yaml").write_text(yaml.safe_dump(data), "utf-8")
    environment = load(folder / "shared.yaml")
    timeouts = Timeouts(slurmd_s=20, message_s=20, kill_wait_s=2)
    plan = make(environment, base="trixie", timeouts=timeouts, slurm={"PriorityCalcPeriod": "1"})
    people = {"schema": 1, "users": USERS, "groups": [], "removed": [], **shares(environment)}

    def prepare(lab: Laboratory) -> None:
        for node in lab.plan.nodes:
            if node.role != "aws":
                lab.run("id alan 2>/dev/null || useradd -u 1003 -m -s /bin/bash alan", node=node.name, user="root")
        for name in ("apply_shares.py", "slurm_state.py"):
            text = (cluster_bundle.ASSETS / "people" / name).read_text("utf-8")
            lab.write(f"/root/people/{name}", text, user="root")
        lab.write("/opt/trainyard/settings.json", json.dumps(lab.plan.settings()), user="root")

    with running(folder / "lab", plan, prepare) as lab:
        yield Cluster(lab, people)

"""Reading and waiting for the state of nodes, jobs and accounting in Slurm. A part of Laboratory."""

from __future__ import annotations

import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from local.slurm.plan import Plan
from ops.problem import Problem

READY_SECONDS = 60
ENDS = frozenset({"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL"})


class SlurmState(ABC):
    """Queries to a running Slurm through commands on its head node."""

    @property
    @abstractmethod
    def plan(self) -> Plan:
        """The plan that the laboratory was started with."""

    @abstractmethod
    def run(
        self, command: Sequence[str] | str, *, user: str = "", check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the head node."""

    def wait(self, condition: Callable[[], bool], what: str, *, seconds: float = 60) -> None:
        """Wait until a condition holds.

        Raises:
            Problem: it does not within `seconds`; the message has `what`, sinfo and squeue.
        """
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                shown = self.run("sinfo -N -l; squeue -l", check=False)
                raise Problem(f"not after {seconds:g} s: {what}\n{shown.stdout}")
            time.sleep(0.1)

    def wait_for_nodes(
        self, *names: str, states: Sequence[str] = ("idle", "mix", "alloc"), seconds: float = READY_SECONDS
    ) -> None:
        """Wait until nodes (all compute nodes by default) are in one of the states of `sinfo -o %t`."""
        wanted = set(names or (node.name for node in self.plan.compute))

        def reached() -> bool:
            lines = self.run(["sinfo", "-hN", "-o", "%N %t"], user="root", check=False).stdout.splitlines()
            return wanted <= {line.split()[0] for line in lines if line.split()[1] in states}

        self.wait(reached, f"{', '.join(sorted(wanted))} in {' or '.join(states)}", seconds=seconds)

    def job(self, job: str) -> dict[str, str]:
        """The fields of `scontrol show job`; empty for an unknown job."""
        text = self.run(["scontrol", "-o", "show", "job", job], user="root", check=False).stdout
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def wait_for_job(self, job: str, *, states: Sequence[str] = ("COMPLETED",), seconds: float = 60) -> dict[str, str]:
        """Wait until a job is in one of the states.

        Raises:
            Problem: it ended in another state, or does not reach one within `seconds`.
        """
        found: dict[str, str] = {}

        def reached() -> bool:
            found.clear()
            found.update(self.job(job))
            return found.get("JobState") in {*states, *ENDS}

        self.wait(reached, f"job {job} {' or '.join(states)}", seconds=seconds)
        if found["JobState"] not in states:
            raise Problem(f"job {job} is {found['JobState']}, not {' or '.join(states)}: {found}")
        return dict(found)

    def accounting(
        self, job: str, fields: Sequence[str] = ("jobname", "state", "exitcode", "nnodes", "alloctres", "nodelist")
    ) -> dict[str, dict[str, str]]:
        """sacct's record of an ended job and its steps, by their ids, when it is complete.

        slurmctld sends the job's record up to 5 s after those of its steps; until then sacct derives one from the first
        step, with the name "allocation" and the step's nodes.

        Raises:
            Problem: it is not complete within 30 s.
        """
        columns = ["jobid", "jobname", "state", *fields]
        found: dict[str, dict[str, str]] = {}

        def whole() -> bool:
            lines = self.run(["sacct", "-nPj", job, "-o", ",".join(columns)], user="root").stdout.splitlines()
            found.clear()
            found.update({line.split("|")[0]: dict(zip(fields, line.split("|")[3:], strict=True)) for line in lines})
            rows = [line.split("|") for line in lines]
            return bool(rows) and all(row[1] != "allocation" and row[2].split()[0] in ENDS for row in rows)

        self.wait(whole, f"job {job} in sacct", seconds=30)
        return found

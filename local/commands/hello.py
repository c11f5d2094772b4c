"""The end of `trainyard up`: hello-gpu, a Slurm job on two bootstrapped nodes of a laboratory on this machine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from local.slurm import Laboratory, Unavailable, bootstrap, host, make, monitoring
from local.slurm.laboratory import ENDS
from local.slurm.remote import LABORATORIES
from ops.overview.page import overview
from ops.overview.prometheus import Prometheus
from ops.problem import Problem
from ops.report import write

if TYPE_CHECKING:
    from rich.console import Console

    from local.commands.session import Session

NODES = 2
JOB_LIMIT_S = 240
JOB = "/opt/trainyard/current/jobs/hello-gpu.sbatch"
OUTPUT = "hello-gpu.out"
USER = "ubuntu"
METRICS_S = 2
MEASURED = f'count(count_over_time(DCGM_FI_DEV_GPU_UTIL{{hpc_job=~".+"}}[1m]) > 2) >= {NODES} and count(slurm_job_gpus)'
OVERVIEW_S = 120
OVERVIEW_LIMIT_S = 90


def run(session: Session, console: Console) -> None:
    """Run the job and print its output; skip it where this machine cannot run a laboratory.

    Raises:
        Problem: the bootstrap or the job failed.
    """
    console.print("\nRunning hello-gpu on 2 nodes of a Slurm laboratory here (simulated GPUs).")
    laboratory = Laboratory(session.state / LABORATORIES / "hello")  # where `trainyard down` looks
    metrics_s = METRICS_S if session.environment.observability.prometheus else 0
    plan = make(session.environment, nodes=NODES, metrics_s=metrics_s)
    try:
        host.install()
        laboratory.up(plan, before_slurmd=lambda: bootstrap.all_nodes(laboratory))
        home = f"/home/{USER}"
        submit = ["sbatch", "--parsable", f"--chdir={home}", f"--output={OUTPUT}", f"--nodes={NODES}", JOB]
        job = laboratory.output(submit, user=USER).strip()
        ended = laboratory.wait_for_job(job, states=tuple(ENDS), seconds=JOB_LIMIT_S)
        said = laboratory.output(["cat", f"{home}/{OUTPUT}"])
        seen = _overview(laboratory, session) if metrics_s and ended["JobState"] == "COMPLETED" else ""
    except Unavailable as unavailable:
        console.print(f"[yellow]hello-gpu was not run:[/yellow] {unavailable}")
        return
    finally:
        laboratory.down()
    for line in said.splitlines():
        console.print(f"  {line}", markup=False)
    if ended["JobState"] != "COMPLETED":
        raise Problem(f"hello-gpu ended as {ended['JobState']}; its output is above.")
    console.print("[green]hello-gpu: COMPLETED[/green]")
    if seen:
        console.print(seen, soft_wrap=True)


def _overview(laboratory: Laboratory, session: Session) -> str:
    """Write the metrics of a job on all GPUs to overview.html in the state folder; returns what to print about it."""
    page, name = session.state / "overview.html", session.environment.name
    until = time.monotonic() + OVERVIEW_LIMIT_S
    laboratory.run(["sbatch", "--exclusive", f"--nodes={NODES}", "--gpus-per-node=1", "--wrap=sleep 600"], user=USER)
    try:
        with monitoring.tunnel(laboratory) as address:
            prometheus = Prometheus(address)
            while not prometheus.instant(MEASURED, time.time()):
                if time.monotonic() > until:
                    return f"[yellow]No overview of the metrics:[/yellow] none arrived in {OVERVIEW_LIMIT_S} s."
                time.sleep(1)
            write(overview(name, prometheus, time.time(), span=OVERVIEW_S), "html", page)
    except Problem as problem:
        return f"[yellow]No overview of the metrics:[/yellow] {problem}"
    return (
        f"Metrics of a second job (simulated): {page}\n"
        f"`make lab` starts such a cluster with a shell; `trainyard status {name} --web` then shows its metrics."
    )

"""The end of `trainyard up`: hello-gpu, a Slurm job on two bootstrapped nodes of a laboratory on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from local.slurm import Laboratory, Unavailable, bootstrap, host, make
from ops.problem import Problem

if TYPE_CHECKING:
    from rich.console import Console

    from local.commands.session import Session

NODES = 2
JOB_LIMIT_S = 240
JOB = "/opt/trainyard/current/jobs/hello-gpu.sbatch"
OUTPUT = "hello-gpu.out"
USER = "ubuntu"


def run(session: Session, console: Console) -> None:
    """Run the job and print its output; skip it where this machine cannot run a laboratory.

    Raises:
        Problem: the bootstrap or the job failed.
    """
    console.print(
        "\nRunning hello-gpu on 2 nodes of a Slurm laboratory here (simulated GPUs). `make lab` starts one with "
        f"metrics and a shell; while it runs, `trainyard status {session.environment.name} --web` shows its nodes."
    )
    laboratory = Laboratory(session.state / "lab")
    try:
        host.install()
        laboratory.up(make(session.environment, nodes=NODES), before_slurmd=lambda: bootstrap.all_nodes(laboratory))
        home = f"/home/{USER}"
        submit = ["sbatch", "--parsable", f"--chdir={home}", f"--output={OUTPUT}", f"--nodes={NODES}", JOB]
        job = laboratory.output(submit, user=USER).strip()
        ended = laboratory.wait_for_job(
            job, states=("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL"), seconds=JOB_LIMIT_S
        )
        said = laboratory.output(["cat", f"{home}/{OUTPUT}"])
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

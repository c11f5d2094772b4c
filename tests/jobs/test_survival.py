"""Training jobs survive faults: the watchdog ends what hangs, and the job goes on elsewhere without losing more than a
checkpoint interval.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import pytest

from local.slurm import Laboratory
from tests.jobs.test_production import ENV, TRAIN, losses, submit

ENVIRONMENT = {**ENV, "WATCHDOG_SILENCE": "30", "WATCHDOG_STALL": "15"}
# What runs on a node: a rank, and the daemon of a step (not of the job's script).
RANK = "^[^ ]*python3[^ ]* -u .*/rank.py"
STEP = r"^slurmstepd: \[{job}\.[0-9]"
EVERY, SEED = 5, 13


@pytest.fixture
def clean(lab: Laboratory) -> Iterator[None]:
    """No reports of bad nodes before and after: three of them would drain a node."""
    lab.run("rm -rf /fsx1/results/bad-nodes")
    yield
    lab.run("rm -rf /fsx1/results/bad-nodes")


def newest(lab: Laboratory, file: str) -> int:
    """The last step of a metrics file, read without a process."""
    try:
        lines = lab.path(file).read_text().splitlines()
        return int(json.loads(lines[-1])["step"])
    except (OSError, ValueError, IndexError):
        return 0


def wait_for_step(lab: Laboratory, file: str, step: int, story: Sequence[str] = ()) -> None:
    """Wait until the run is beyond a step. A fault may cost five minutes; a loaded machine gets ten."""
    limit = time.monotonic() + 600
    while newest(lab, file) < step:
        assert time.monotonic() < limit, (
            f"no step {step} after {story}: {lab.run('squeue -l; sinfo -N -l', check=False).stdout}"
        )
        time.sleep(0.5)


def kill(pattern: str, signal: str = "KILL") -> str:
    """The shell's words that signal processes by their command line."""
    return f"pkill -{signal} -f '{pattern}'"


# Ends slurmd and all that belongs to its jobs, and starts it again: Slurm sees no failed node. Seen on Slurm 22.05:
# torchrun on the other node ended, srun waited on, and the job held both nodes.
LOSE_ALL = f"pkill -KILL -x slurmd; {kill('^slurmstepd')}; pkill -KILL -u ubuntu; systemctl start slurmd"


HANGS = """
import os, pathlib, sys, time
sys.path.insert(0, "/opt/trainyard/current/training")
import progress, torch, torch.distributed as dist
dist.init_process_group("gloo")
first = os.environ.get("SLURM_RESTART_COUNT", "0") == "0"
mark = pathlib.Path(os.environ["CHECKPOINT_DIR"]) / "mark"
def prepare_batch():
    time.sleep(3600)
mark.touch() if first else print("the mark is there:", mark.exists(), flush=True)
for step in range(1, 4):
    if first and step == 3 and dist.get_rank() == 1:
        prepare_batch()
    dist.all_reduce(torch.ones(1))
    progress.report(step)
    time.sleep(1.1)
dist.barrier()
os._exit(0)
"""


def test_the_rank_that_did_not_arrive_at_a_collective_is_named(lab: Laboratory, jobs: str) -> None:
    lab.write("/fsx1/results/hangs.py", HANGS)
    line = f"{jobs}/train-fsdp.sbatch --nodes 1 --procs 2 --experiment hangs -- /fsx1/results/hangs.py"
    found = lab.wait_for_job(submit(lab, line, ENVIRONMENT), seconds=600)
    output = lab.output(["cat", found["StdOut"]])
    assert int(found["Restarts"]) >= 1 and "the mark is there: True" in output
    assert "gloo:all_reduce number 3 of default_pg: ranks 0 wait, ranks 1 did not arrive" in output, output
    stacks = lab.output(f"cat /fsx3/logs/hangs/watchdog/{found['JobId']}.0/stacks/1")
    assert "in prepare_batch" in stacks


Act = Callable[[Laboratory, str, list[str], random.Random], None]


def on_any(words: str) -> Act:
    """A fault on one of the job's nodes."""

    def act(lab: Laboratory, job: str, nodes: list[str], choice: random.Random) -> None:
        lab.run(words.format(job=job), node=choice.choice(nodes), user="root", check=False)

    return act


def on_first(words: str) -> Act:
    """A fault on the node of the job's script."""
    return lambda lab, job, nodes, choice: on_any(words)(lab, job, nodes[:1], choice)


def on_second(words: str) -> Act:
    """A fault on another node than that of the job's script."""
    return lambda lab, job, nodes, choice: on_any(words)(lab, job, nodes[1:], choice)


def kill_watchdog(lab: Laboratory, _job: str, nodes: list[str], _choice: random.Random) -> None:
    """The job's script starts another one."""

    def processes() -> set[str]:
        return set(lab.run("pgrep -f '[w]atchdog.py watch'", node=nodes[0], user="root", check=False).stdout.split())

    before, limit = processes(), time.monotonic() + 120
    assert before
    lab.run(f"kill -KILL {' '.join(before)}", node=nodes[0], user="root")
    while not processes() - before:
        assert time.monotonic() < limit, "no other watchdog"
        time.sleep(0.5)


DAEMON = "a node loses all of Slurm's daemons"
# The last four end no attempt.
FAULTS: dict[str, Act] = {
    "a rank is killed": on_any(kill(RANK)),
    "a rank is stopped": on_any(kill(RANK, "STOP")),
    "the daemon of a step is killed": on_any(kill(STEP)),
    DAEMON: on_second(LOSE_ALL),
    "a node loses power": lambda lab, _, nodes, choice: lab.kill(choice.choice(nodes)),
    "srun is killed": on_first("pkill -KILL -x srun"),
    "a node's processes are frozen": on_second("pkill -STOP -u ubuntu"),
    "a rank is slow for a while": on_any(f"{kill(RANK, 'STOP')}; sleep 3; {kill(RANK, 'CONT')}"),
    "the watchdog is killed": kill_watchdog,
    "the deputy is killed": on_second(kill("watchdog.py deputy")),
    "slurmd is killed": on_any("pkill -KILL -x slurmd; sleep 1; systemctl start slurmd"),
}


@pytest.mark.usefixtures("revive", "clean")
def test_eleven_random_faults_in_one_run(lab: Laboratory, jobs: str) -> None:
    """A fault comes after the run has recovered from the one before. The losses at the end are those without faults."""
    folder = "/fsx2/model6/checkpoints"
    choice = random.Random(SEED)  # noqa: S311
    order = choice.sample(sorted(FAULTS), len(FAULTS))
    steps = 11 * len(order)
    line = f"{jobs}/train-model.sbatch --nodes 2 --procs 1 --attempts 9"
    program = f"{TRAIN} --steps {steps} --every {EVERY} --keep 99 --report 1 --deterministic"
    metrics, reference = "/fsx1/results/faults.json", "/fsx1/results/undisturbed.json"
    lab.run(f"rm -rf /fsx2/model[67]/checkpoints/step-* {metrics} {reference}")
    # A checkpoint that was cut short: newer than all, and not whole.
    lab.write(f"{folder}/step-00000900/__0_0.distcp", "half")
    job = submit(lab, f"{line} --model model6 -- {program} --step-seconds 0.5 --metrics {metrics}", ENVIRONMENT)
    submit(lab, f"{line} --model model7 --export none -- {program} --metrics {reference}", ENVIRONMENT)
    story: list[str] = []
    accused = ""
    for fault in order:
        wait_for_step(lab, metrics, newest(lab, metrics) + choice.randint(1, EVERY))
        nodes = lab.output(["scontrol", "show", "hostnames", lab.job(job)["NodeList"]]).split()
        step = newest(lab, metrics)
        story.append(f"step {step}: {fault}, of {nodes}")
        FAULTS[fault](lab, job, nodes, choice)
        wait_for_step(lab, metrics, step + EVERY, story)  # beyond the steps that were under way
        if fault == DAEMON:
            accused = nodes[1]
            assert accused not in lab.output(["scontrol", "show", "hostnames", lab.job(job)["NodeList"]]).split()
    found = lab.wait_for_job(job, seconds=600)
    output = lab.output(["cat", found["StdOut"]])
    assert f"passed: model6 is done at step {steps}" in output
    assert int(found["Restarts"]) >= 4, (story, output)
    assert f"{accused}: its step daemon is gone" in output and re.search(rf"excluded: \S*{accused}\b", output), output
    assert f" of model6, {folder}/step-000000" in output and f"resumed from {folder}/step-000000" in output
    assert f"{folder}/step-00000900" not in output
    assert f"exported {folder}/step-{steps:08} to s3://" in output
    lab.run(["rm", "-rf", f"{folder}/step-00000900"])
    wait_for_step(lab, reference, steps)
    wanted, parts = losses(lab, reference), losses(lab, metrics)
    assert sorted(parts) == sorted(wanted) == list(range(1, steps + 1))
    assert parts == pytest.approx(wanted, abs=1e-6)
    made = [json.loads(text)["step"] for text in lab.output(["cat", metrics]).splitlines()]
    lost = [before - after + 1 for before, after in pairwise(made) if after <= before]
    assert max(lost) <= 2 * EVERY, "an interval, and a checkpoint that was being written"
    # A node with three reports is drained by its health check.
    reports = f"/fsx1/results/bad-nodes/{accused}"
    assert '"reason": "its step daemon is gone"' in lab.output(f"cat {reports}/*")
    lab.run(f"cd {reports} && touch another.json third.json")
    try:
        lab.run(["bash", "/opt/trainyard/current/scans/node-health.sh"], node=accused, user="root")
        said = lab.output(["sinfo", "-hR", "-n", accused, "-o", "%E"])
        assert re.search(r"job-reports: [3-9], wanted fewer than 3", said), said
    finally:
        lab.run(["scontrol", "update", f"NodeName={accused}", "State=RESUME"], user="root", check=False)

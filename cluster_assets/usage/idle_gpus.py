"""idle_gpus.py --settings FILE --people FILE --folder FOLDER: ends interactive jobs whose GPUs all are idle.

Runs every minute on the head node (trainyard-idle-gpus.timer), as root. It looks at running jobs whose quality of
service has `idle_gpu_minutes` (people.json): those of salloc and srun, and of the product's notebook.sbatch; no other
batch job. When all GPUs of a job have been idle for that time, the user gets a warning; the job ends if they stay idle
for five minutes after it. Without a figure of each GPU that is at most three minutes old (gpu_use.py), and without a
warning that reached the job, nothing ends. The standard library only, Python 3.9.
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Optional

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "monitoring"))

import periodic
from slurm_output import Row, hosts, run, table

MAIL = Path(__file__).resolve().parent.parent / "monitoring" / "slurm-mail.sh"
GRACE_S = 300
STALE_S = 180
NOTEBOOK = "jobs/notebook.sbatch"
JOB = {
    "JobID": 12, "UserName": 64, "QOS": 64, "Partition": 64, "BatchFlag": 8, "StartTime": 16, "NodeList": 1024,
    "Command": 1024,
}  # fmt: skip
COMMAND_S = 30
_NODE = r"[\w.-]+(?:\[\d{1,4}(?:[,-]\d{1,4})*\])?"
GPUS = re.compile(
    rf"^\s+Nodes=({_NODE}(?:,{_NODE})*) .*GRES=\S*?gpu\S*?\(IDX:(\d{{1,3}}(?:[,-]\d{{1,3}})*)\)",
    re.ASCII | re.MULTILINE,
)
"""Nodes and GPU indices of a job. Bounded, because a job's name or comment can imitate such a line."""


def interactive(job: Row, folders: Sequence[Path]) -> bool:
    """Whether a job has a user in front of it: no batch script, or the product's notebook, which is root's file."""
    if job["BatchFlag"] == "0":
        return True
    path = Path(job["Command"])
    try:
        own = path.is_absolute() and any(path.resolve().is_relative_to(folder.resolve()) for folder in folders)
        return own and str(path).endswith(f"/{NOTEBOOK}") and path.stat().st_uid == 0
    except (OSError, RuntimeError):  # a loop of links
        return False


def figures(file: Path, now: float) -> Optional[dict[str, Any]]:  # noqa: UP045 - Python 3.9
    """A node's report, if root's and not older than STALE_S."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle) as stream:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode) or about.st_uid != 0:
                return None
            found: dict[str, Any] = json.load(stream)
        return found if abs(now - found["time"]) <= STALE_S else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def gpus_of(job: str) -> Iterator[tuple[str, list[int]]]:
    """Node and indices of a job's GPUs, as `scontrol --details` lists them."""
    text = run("scontrol", "--details", "show", "job", job).decode(errors="replace")
    for nodes, indices in GPUS.findall(text):
        found: list[int] = []
        for part in indices.split(","):
            first, _, last = part.partition("-")
            found += range(int(first), int(last or first) + 1)
        for node in hosts(nodes):
            yield node, found


def idle_since(job: Row, folder: Path, now: float) -> Optional[float]:  # noqa: UP045 - Python 3.9
    """When the last GPU of a job stopped; None without GPUs, or if a figure is missing.

    Slurm's index may be the device's number or nvidia-smi's index: the busier one counts.
    """
    own, last = set(hosts(job["NodeList"])), float(job["StartTime"])
    found = [(node, indices) for node, indices in gpus_of(job["JobID"]) if node in own]
    if not found:
        return None
    for node, indices in found:
        seen = figures(folder / f"{node}.json", now)
        if seen is None:
            return None
        for index in indices:
            if index >= len(seen["busy"]) or index not in seen["minors"]:
                return None
            for place in (index, seen["minors"].index(index)):
                if seen["busy"][place] is None:
                    return None
                last = max(last, seen["busy"][place])
    return last


def decide(idle_from: float, limit_s: float, warned: Optional[float], now: float) -> str:  # noqa: UP045 - Python 3.9
    """forget, warn, wait or end."""
    if now - idle_from < limit_s:
        return "forget"
    if warned is None or warned < idle_from:
        return "warn"
    return "end" if now - warned >= GRACE_S else "wait"


def call(*line: str, **variables: str) -> bool:
    """Whether a command succeeded."""
    done = subprocess.run(
        line, capture_output=True, text=True, check=False, timeout=COMMAND_S, env={**os.environ, **variables}
    )
    if done.returncode:
        print(f"{' '.join(line[:3])}: {(done.stderr or done.stdout).strip()[-300:]}", file=sys.stderr, flush=True)
    return not done.returncode


def mail(job: Row, subject: str) -> None:
    """Send a mail as Slurm does, if the environment has them."""
    names = {"ID": "JobID", "USER": "UserName", "PARTITION": "Partition", "NODELIST": "NodeList"}
    variables = {f"SLURM_JOB_{name}": job[key] for name, key in names.items()}
    call("bash", str(MAIL), "-s", subject, job["UserName"], **variables, SLURM_CLUSTER_NAME="parallelcluster")


def act(job: Row, decision: str, minutes: int) -> bool:
    """Warn about a job, or end it; whether that was done."""
    number = job["JobID"]
    if decision == "warn":
        text = f"All GPUs of job {number} have been idle for {minutes} minutes (QOS {job['QOS']})."
        text += f" The job ends in {GRACE_S // 60} minutes, unless they work again."
        done = call("scontrol", "notify", number, text)
    else:
        text = (
            f"Job {number} was ended: its GPUs were idle for {minutes} minutes, and after a warning (QOS {job['QOS']})"
        )
        call("scontrol", "update", f"jobid={number}", f"admincomment=trainyard: {text}")
        done = call("scancel", number)
    if done:
        print(f"{text} User {job['UserName']}.", flush=True)
        mail(job, f"trainyard: {text}")
    return done


def check(settings: dict[str, Any], people: dict[str, Any], folder: Path, now: float) -> None:
    """One round over the running jobs."""
    limits = {qos["name"]: qos["idle_gpu_minutes"] for qos in people.get("qos", ()) if qos.get("idle_gpu_minutes")}
    shared = settings["bases"].get("shared")
    if not limits or not shared:
        return
    file = folder / "idle-gpus.json"
    known: dict[str, float] = periodic.read(file)
    warned: dict[str, float] = {}
    scripts = settings["folders"].get("scripts")
    products = [Path("/opt/trainyard"), *([Path(scripts)] if scripts else [])]
    for job in table("squeue", JOB, "--all", "--states=RUNNING", f"--qos={','.join(limits)}"):
        if job["QOS"] not in limits or not interactive(job, products):
            continue
        since = idle_since(job, Path(shared) / "monitoring" / "gpus", now)
        # A requeued job has the same number and another start.
        key = f"{job['JobID']}@{job['StartTime']}"
        minutes = limits[job["QOS"]]
        decision = "unknown" if since is None else decide(since, 60 * minutes, known.get(key), now)
        if decision == "warn" and act(job, decision, minutes):
            warned[key] = now
        elif decision == "wait" or (decision == "end" and not act(job, decision, minutes)):
            warned[key] = known[key]
    periodic.write(file, warned)


if __name__ == "__main__":
    periodic.main("Ends interactive jobs with idle GPUs.", check)

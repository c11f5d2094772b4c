"""Runs of jobs on nodes, and the hours of nodes without a job, from Slurm's records. The standard library only."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "monitoring"))

from slurm_output import gpus as gpus_of

TIMEOUT_S = 120
HOUR = 3600
OUTCOMES = {
    "COMPLETED": "completed",
    **dict.fromkeys(("BOOT_FAIL", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT"), "failed"),
    "CANCELLED": "cancelled",
    # Slurm started the job again; what it had not saved was lost.
    **dict.fromkeys(("PREEMPTED", "REQUEUED", "RESIZING", "REVOKED"), "interrupted"),
}
"""Outcome by the job state of an ended record (sacct(1), JOB STATE CODES); any other state is running."""
Interval = tuple[float, float]


def refuse(why: str) -> NoReturn:
    """End with a reason."""
    sys.stderr.write(f"usage: {why}\n")
    sys.exit(1)


@dataclass(frozen=True)
class Machine:
    """A node as Slurm has it."""

    cpus: float
    gpus: float


@dataclass
class Run:
    """A record of sacct: one run of a job. A job that was requeued has several."""

    job: str
    user: str
    team: str
    name: str
    model: str
    state: str
    span: Interval
    seconds: float
    gpus: int
    cpus: int
    nodes: list[str]
    share: dict[str, float] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        """completed, failed, cancelled, interrupted or running."""
        return OUTCOMES.get(self.state, "running")


def slurm(*line: str) -> str:
    """The output of a command of Slurm, with times in seconds since 1970."""
    variables = {**os.environ, "SLURM_TIME_FORMAT": "%s", "TZ": "UTC"}
    try:
        done = subprocess.run(line, capture_output=True, check=False, timeout=TIMEOUT_S, env=variables)
    except FileNotFoundError:
        refuse(f"{line[0]} is not in PATH on {os.uname().nodename}: is this the head node?")
    except subprocess.TimeoutExpired:
        refuse(f"{line[0]} did not answer in {TIMEOUT_S} s: is slurmdbd running?")
    if done.returncode:
        refuse(f"{line[0]}: {(done.stderr or done.stdout).decode(errors='replace').strip()[-1500:]}")
    return done.stdout.decode(errors="replace")


def utc(moment: float) -> str:
    """A time as sacct and sacctmgr take it."""
    return f"{datetime.fromtimestamp(moment, timezone.utc):%Y-%m-%dT%H:%M:%S}"  # noqa: UP017 - Python 3.9


def clipped(span: Interval, window: Interval) -> Interval:
    """The part of a span within a window; empty if it ends before it begins."""
    start = max(span[0], window[0])
    return start, max(start, min(span[1], window[1]))


def machines() -> dict[str, Machine]:
    """The nodes of the cluster, by name."""
    found = {}
    for line in slurm("sinfo", "--Node", "--all", "--noheader", "--format=%N %c %G").splitlines():
        name, cpus, gres = line.split(maxsplit=2)
        found[name] = Machine(float(cpus), gpus_of(gres))
    return found


def share_nodes(run: Run, nodes: dict[str, Machine], counted: bool) -> None:
    """Set the part of each node that a run had: of the node's GPUs if it had any, otherwise of its CPUs.

    Where Slurm does not count GPUs (AccountingStorageTRES), the GPUs follow from the CPUs. A node that the cluster no
    longer has counts as a whole.
    """
    unknown = Machine(run.cpus / len(run.nodes), run.gpus / len(run.nodes))
    own = {name: nodes.get(name, unknown) for name in run.nodes}
    cpus = min(1.0, run.cpus / (sum(one.cpus for one in own.values()) or 1))
    total = sum(one.gpus for one in own.values())
    if not counted:
        run.gpus = round(total * cpus)
    gpus = min(1.0, run.gpus / total) if total else 0.0
    run.share = {name: gpus if run.gpus and one.gpus else cpus for name, one in own.items()}


def events(window: Interval) -> tuple[float, dict[str, list[Interval]], dict[str, list[Interval]]]:
    """When the cluster began within the window; when its nodes were off; when they were down or drained.

    slurmctld records a powered-down node as an event (power_save.c), whose state has a `~`, or `%` while it goes down.
    """
    begin: list[float] = []
    off: dict[str, list[Interval]] = defaultdict(list)
    bad: dict[str, list[Interval]] = defaultdict(list)
    text = slurm(
        "sacctmgr", "--noheader", "--parsable2", "show", "event", f"start={utc(window[0])}", f"end={utc(window[1])}",
        "format=event,nodename,state,start,end",
    )  # fmt: skip
    for line in text.splitlines():
        kind, node, state, started, ended = line.split("|")[:5]
        span = float(started), float(ended) if ended.isdigit() else window[1]
        if kind == "Cluster":
            begin.append(span[0])
        elif clipped(span, window)[0] < clipped(span, window)[1]:
            (off if set(state) & set("~%") else bad)[node].append(clipped(span, window))
    return max(window[0], min(begin, default=window[0])), off, bad


def length(spans: Iterable[Interval]) -> float:
    """Seconds of spans that may overlap."""
    total, last = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, last))
        last = max(last, end)
    return total


def resource_of(node: str) -> str:
    """`queue/compute` of a node's name, as ParallelCluster forms it."""
    found = re.fullmatch(r"(.+?)-(?:st|dy)-(.+)-\d+", node)
    return f"{found.group(1)}/{found.group(2)}" if found else node


def capacity(nodes: dict[str, Machine], found: Sequence[Run], window: Interval) -> dict[str, dict[str, float]]:
    """Node hours of each compute resource: up, in use, down or drained without a job, and idle."""
    begin, off, bad = events(window)
    used: dict[str, float] = defaultdict(float)
    busy_while_bad: dict[str, float] = defaultdict(float)
    for run in found:
        for node, part in run.share.items():
            used[node] += part * run.seconds
            for span in bad.get(node, ()):
                both = clipped(run.span, span)
                busy_while_bad[node] += part * run.seconds * (both[1] - both[0]) / (run.span[1] - run.span[0] or 1)
    table: dict[str, dict[str, float]] = {}
    for node in sorted({*nodes, *used}):
        row = table.setdefault(
            resource_of(node), {"nodes": 0, "gpus": 0, "up": 0.0, "used": 0.0, "down": 0.0, "idle": 0.0}
        )
        # A node that the cluster no longer has was up at least while it had jobs.
        up = window[1] - begin - length(off[node]) if node in nodes else used[node]
        dead = length([*bad[node], *off[node]]) - length(off[node])
        down = min(max(0.0, up - used[node]), max(0.0, dead - busy_while_bad[node])) if node in nodes else 0.0
        row["nodes"] += node in nodes
        row["gpus"] = nodes[node].gpus if node in nodes else row["gpus"]
        row["up"] += max(up, used[node]) / HOUR
        row["used"] += used[node] / HOUR
        row["down"] += down / HOUR
        row["idle"] += max(0.0, up - used[node] - down) / HOUR
    return {name: {key: round(value, 4) for key, value in row.items()} for name, row in table.items()}

"""usage.py --settings FILE REQUEST WORD...: who used the cluster, from Slurm's accounting; on the head node.

    report SINCE UNTIL JOBS   usage between two times, in seconds since 1970, with the JOBS largest jobs
    page DIGEST NUMBER        a further page of a report

The answer is one line of JSON: the pages of a report are zlib-compressed JSON in base64, each short enough for Systems
Manager, which keeps 24,000 characters. `collect` documents the report. The standard library only, Python 3.9 or later.
Exit codes: 0 answered; 1 refused, the reason on stderr; 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import re
import secrets
import subprocess
import sys
import time
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "monitoring"))

from slurm_output import gpus as gpus_of
from slurm_output import hosts, seconds

PAGE = 20_000
KEPT_S = 3600
MOST_JOBS, MOST_NAME = 20_000, 64
TIMEOUT_S = 120
HOUR, DAY = 3600, 86400
FIELDS = (
    *("JobIDRaw", "User", "UID", "Account", "State", "Start", "End", "Suspended", "AllocTRES", "NodeList"),
    *("Comment", "JobName"),
)
OUTCOMES = {
    "COMPLETED": "completed",
    **dict.fromkeys(("BOOT_FAIL", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT"), "failed"),
    "CANCELLED": "cancelled",
    # Slurm started the job again; what it had not saved was lost.
    **dict.fromkeys(("PREEMPTED", "REQUEUED", "RESIZING", "REVOKED"), "interrupted"),
}
"""Of the states in which a record ends (sacct(1), job state codes); a job in any other state is running."""
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


def records(window: Interval) -> Iterator[list[str]]:
    """The records of all users' jobs that ran within the window.

    A name may contain any character. The delimiter is random, so no name can look like another record.
    """
    mark = f"\x1f{secrets.token_hex(8)}\x1f"
    text = slurm(
        "sacct", "--allusers", "--allocations", "--duplicates", "--noheader", "--parsable", f"--delimiter={mark}",
        f"--starttime={utc(window[0])}", f"--endtime={utc(window[1])}", f"--format={','.join(FIELDS)}",
    )  # fmt: skip
    words = text.split(mark)
    if (len(words) - 1) % len(FIELDS):
        refuse(f"sacct printed {len(words) - 1} fields, which are not records of {len(FIELDS)}")
    for start in range(0, len(words) - 1, len(FIELDS)):
        yield [words[start].lstrip("\n"), *words[start + 1 : start + len(FIELDS)]]


def runs(window: Interval, models: Iterable[dict[str, Any]]) -> Iterator[Run]:
    """The runs within the window. Suspended time is taken from a run that is clipped in proportion."""
    known = {model["name"] for model in models}
    for row in records(window):
        job, user, uid, account, state, started, ended, suspended, tres, nodelist, comment, name = row
        if not started.isdigit() or not nodelist or nodelist == "None assigned":
            continue  # it waits, or ended before it started
        whole = float(started), float(ended) if ended.isdigit() else window[1]
        span, whole_s = clipped(whole, window), max(0.0, whole[1] - whole[0])
        # A job may end in the second in which it started: it is a run, of 0 s.
        if whole[0] >= window[1] or (span[0] >= span[1] and (whole_s or whole[0] < window[0])):
            continue
        active = max(0.0, 1 - (seconds(suspended) or 0) / whole_s) if whole_s else 0.0
        found = re.search(r"(?:^|[\s,;])(?:experiment|model)=([\w.-]+)", comment)
        experiment = found.group(1) if found else ""
        model = next((word for word in (experiment, name) if word in known), "")
        yield Run(
            job, user or f"uid {uid}", account or "(none)", "".join(one if one.isprintable() else " " for one in name),
            model or "(none)", state.split(" ")[0], span, active * (span[1] - span[0]),
            amount(tres, "gres/gpu"), amount(tres, "cpu"), list(hosts(nodelist)),
        )  # fmt: skip


def amount(tres: str, name: str) -> int:
    """A number of `cpu=192,gres/gpu=8,gres/gpu:h100=8`."""
    found = re.search(rf"(?:^|,){re.escape(name)}=(\d+)", tres)
    return int(found.group(1)) if found else 0


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


def collect(settings: dict[str, Any], window: Interval, most_jobs: int = 0) -> dict[str, Any]:
    """The usage within a window, which ends now at the latest.

    Keys of the report: `rows` are team, user, model, outcome, compute resource, runs, GPU hours and node hours; `days`
    are day, team, GPU hours and node hours; `resources` are the node hours of `capacity`; `jobs` are the largest runs.
    """
    nodes = machines()
    counted = "gres/gpu" in slurm("scontrol", "show", "config").partition("AccountingStorageTRES")[2].split("\n")[0]
    found = list(runs(window, settings["models"]))
    rows: dict[tuple[str, ...], list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
    days: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    jobs = []
    for run in found:
        share_nodes(run, nodes, counted)
        parts: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for node, part in run.share.items():
            gpus = nodes[node].gpus if node in nodes else run.gpus / len(run.nodes)
            parts[resource_of(node)][0] += part * gpus * run.seconds / HOUR if run.gpus else 0
            parts[resource_of(node)][1] += part * run.seconds / HOUR
        for number, (resource, (gpu_hours, node_hours)) in enumerate(parts.items()):
            row = rows[run.team, run.user, run.model, run.outcome, resource]
            row[0] += number == 0
            row[1] += gpu_hours
            row[2] += node_hours
        total = [sum(part[index] for part in parts.values()) for index in (0, 1)]
        for day, part in by_day(run.span):
            days[day, run.team][0] += part * total[0]
            days[day, run.team][1] += part * total[1]
        jobs.append((total[1], run, {name: round(part[1], 4) for name, part in parts.items()}, total[0]))
    jobs.sort(key=lambda one: -one[0])
    return {
        "schema": 1,
        "since": window[0],
        "until": window[1],
        "gpus_counted": counted,
        "resources": capacity(nodes, found, window),
        "rows": [[*key, row[0], round(row[1], 4), round(row[2], 4)] for key, row in sorted(rows.items())],
        "days": [[*key, round(row[0], 4), round(row[1], 4)] for key, row in sorted(days.items())],
        "jobs": [
            {
                **{"job": run.job, "name": run.name[:MOST_NAME], "user": run.user, "team": run.team},
                **{"model": run.model, "state": run.state, "start": run.span[0], "end": run.span[1]},
                **{"gpu_hours": round(gpu_hours, 4), "node_hours": node_hours},
            }
            for _, run, node_hours, gpu_hours in jobs[: min(most_jobs, MOST_JOBS)]
        ],
        "runs": len(found),
    }


def by_day(span: Interval) -> Iterator[tuple[str, float]]:
    """The days of a span, in UTC, and the part of it on each."""
    start, whole = span[0], span[1] - span[0]
    while start < span[1]:
        end = min(span[1], (start // DAY + 1) * DAY)
        yield utc(start)[:10], (end - start) / whole
        start = end


def report(settings: dict[str, Any], words: Sequence[str], folder: Path) -> dict[str, Any]:
    """The first page of a report; the others are kept for an hour."""
    if len(words) != 3 or not all(re.fullmatch(r"\d{1,10}", word) for word in words):
        refuse("report takes SINCE UNTIL JOBS, three numbers")
    since, until, most_jobs = map(int, words)
    until = min(until, int(time.time()))
    if since >= until:
        refuse(f"the time {utc(since)} is not before {utc(until)} (UTC)")
    text = json.dumps(collect(settings, (since, until), most_jobs), separators=(",", ":"))
    packed = base64.b64encode(zlib.compress(text.encode(), 9)).decode()
    digest = hashlib.sha256(packed.encode()).hexdigest()[:32]
    pages = -(-len(packed) // PAGE)
    if pages > 1:
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("*.report"):
            if old.stat().st_mtime < time.time() - KEPT_S:
                old.unlink()
        (folder / f"{digest}.report").write_text(packed)
    return {"digest": digest, "pages": pages, "data": packed[:PAGE]}


def page(_settings: dict[str, Any], words: Sequence[str], folder: Path) -> dict[str, Any]:
    """A page of a report, counted from 0."""
    if len(words) != 2 or not re.fullmatch(r"[0-9a-f]{32}", words[0]) or not re.fullmatch(r"\d{1,4}", words[1]):
        refuse("page takes DIGEST NUMBER")
    try:
        packed = (folder / f"{words[0]}.report").read_text()
    except OSError:
        refuse("this report is no longer kept: ask for it again")
    start = int(words[1]) * PAGE
    return {"data": packed[start : start + PAGE]}


def main(arguments: Sequence[str]) -> int:
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="usage.py", description="Who used the cluster.")
    parser.add_argument("--settings", type=Path, required=True, help="settings.json of the environment")
    parser.add_argument("--folder", type=Path, default=Path("/var/lib/trainyard/usage"), help="for further pages")
    parser.add_argument("request", choices=("report", "page"))
    parser.add_argument("words", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    settings = json.loads(options.settings.read_text())
    answer = {"report": report, "page": page}[options.request](settings, options.words, options.folder)
    print(json.dumps(answer, separators=(",", ":")))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

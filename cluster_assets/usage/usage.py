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
import re
import secrets
import sys
import time
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from node_hours import HOUR, Interval, Run, capacity, clipped, machines, refuse, resource_of, share_nodes, slurm, utc
from slurm_output import hosts, seconds

PAGE = 20_000
KEPT_S = 3600
MOST_JOBS, MOST_NAME = 20_000, 64
DAY = 86400
FIELDS = (
    *("JobIDRaw", "User", "UID", "Account", "State", "Start", "End", "Suspended", "AllocTRES", "NodeList"),
    *("Comment", "JobName"),
)


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
    """The runs within the window. Of a clipped run, suspended time is subtracted in proportion."""
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

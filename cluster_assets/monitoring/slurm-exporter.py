"""Serves Slurm's nodes and jobs, the progress of training jobs, and Prometheus' list of targets, on the head node.

    slurm-exporter.py --listen ADDRESS:PORT [--jobs FOLDER]

/metrics  series in Prometheus' text format (docs/observability.md lists them)
/targets  for http_sd_configs: the exporters of every node that is up, with the labels node, queue and job

Two threads read, every 15 s: one calls sinfo, squeue and sshare, the other reads the files that the jobs' watchdogs
write (jobs/watchdog/status.py). A request is answered from the last reading and never waits for Slurm or a file system.
`slurm_up` is 0 after a reading that failed; the other series stay for 60 s, so that one slow answer ends no alert.
Jobs' names and comments, and the files, are what users wrote: nothing in them can add a series or a label of another
job.

The standard library only, Python 3.9 or later.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import re
import stat
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from slurm_output import JOB, NODE, Row, gpus, hosts, run, seconds, state_of, table, tasks

STALE_S = 60.0
MOST_JOBS = 1000
"""Jobs with series of their own, running and pending ones each: Prometheus refuses too large an answer."""
MOST_BYTES, MOST_RANKS, MOST_OF_NODE, MOST_TEXT = 262_144, 10_000, 256, 128
"""Limits of a job's file, of the ranks of all jobs and of one node of a job, and of the characters of a label."""
FIGURES = {
    "step": "training_step", "steps_per_second": "training_steps_per_second", "loss": "training_loss",
    "tokens_per_second": "training_tokens_per_second", "mfu": "training_mfu_ratio",
    "last_step_time": "training_last_step_time_seconds",
}  # fmt: skip


class Page:
    """Samples by series; a second sample with the same labels replaces the first."""

    def __init__(self) -> None:
        self.samples: dict[str, dict[str, float]] = defaultdict(dict)

    def add(self, series: str, value: float, **labels: str) -> None:
        """Add a sample."""
        pairs = [f'{key}="{escaped(text)}"' for key, text in labels.items()]
        self.samples[series][f"{{{','.join(pairs)}}}" if pairs else ""] = value

    def text(self) -> str:
        """The text format, version 0.0.4."""
        lines = []
        for series, samples in self.samples.items():
            lines += [f"# TYPE {series} gauge", *(f"{series}{key} {value:.15g}" for key, value in samples.items())]
        return "".join(f"{line}\n" for line in lines)


def escaped(text: str) -> str:
    """A label's value, without control characters."""
    shown = "".join(one if one.isprintable() else " " for one in text[:MOST_TEXT])
    return shown.replace("\\", r"\\").replace('"', r"\"")


class Slurm:
    """The last reading of Slurm."""

    def __init__(self) -> None:
        self.nodes: dict[str, Row] = {}
        self.jobs: list[Row] = []
        self.known = False

    def read(self) -> str:
        """Read Slurm; returns the page."""
        begun, page, nodes = time.monotonic(), Page(), dict[str, Row]()
        for row in table("sinfo", NODE, "--Node", "--all"):
            # A node in several partitions counts once, for the queue that it is named after.
            if row["NodeList"] not in nodes or re.match(re.escape(row["PartitionName"]) + "-(st|dy)-", row["NodeList"]):
                nodes[row["NodeList"]] = {**row, "state": state_of(row["StateComplete"])}
        jobs = table("squeue", JOB, "--all")  # not --array: the tasks of an array that wait are one record
        places = {job["JobID"]: list(hosts(job["NodeList"])) for job in jobs if job["State"] == "RUNNING"}
        sizes = {name: 1 + gpus(node["Gres"]) for name, node in nodes.items()}
        running = [job for job in jobs if job["JobID"] in places]
        running.sort(key=lambda job: -sum(sizes.get(node, 1) for node in places[job["JobID"]]))
        waiting = sorted((job for job in jobs if job["State"] == "PENDING"), key=lambda job: -int(job["PendingTime"]))
        omitted = max(0, len(running) - MOST_JOBS) + max(0, len(waiting) - MOST_JOBS)
        self.nodes, self.jobs, self.known = nodes, running[:MOST_JOBS], True
        for name, node in nodes.items():
            where = {"node": name, "queue": node["PartitionName"]}
            page.add("slurm_node_state", 1, **where, state=node["state"])
            if node["state"] in ("down", "drained", "draining", "fail", "not_responding"):
                page.add("slurm_node_reason", 1, **where, reason=node["Reason"])
            page.add("slurm_node_gpus", gpus(node["Gres"]), **where)
            page.add("slurm_node_gpus_allocated", gpus(node["GresUsed"]), **where)
        counts = Counter[tuple[str, ...]]()
        for job in jobs:
            key = job["Partition"], job["State"].lower(), job["Account"], job["UserName"]
            counts[key] += tasks(job["ArrayTaskID"]) if job["State"] == "PENDING" else 1
        for (queue, state, account, user), count in counts.items():
            page.add("slurm_jobs", count, queue=queue, state=state, account=account, user=user)
        self.running(page, places)
        for job in waiting[:MOST_JOBS]:
            labels = {"queue": job["Partition"], "user": job["UserName"], "account": job["Account"]}
            page.add("slurm_job_wait_seconds", float(job["PendingTime"]), job=job["JobID"], **labels)
        shares(page)
        page.add("slurm_exporter_jobs_omitted", omitted)
        page.add("slurm_exporter_duration_seconds", time.monotonic() - begun)
        return page.text()

    def running(self, page: Page, places: dict[str, list[str]]) -> None:
        """Add the series of running jobs, whose nodes are `places`."""
        crowds = Counter(node for nodes in places.values() for node in nodes)
        for job in self.jobs:
            number, nodes = job["JobID"], places[job["JobID"]]
            experiment = re.search(r"(?:^|[\s,;])experiment=([\w.-]+)", job["Comment"])
            page.add(
                "slurm_job_info", 1, job=number, name=job["Name"], user=job["UserName"], account=job["Account"],
                queue=job["Partition"], experiment=experiment.group(1) if experiment else "",
            )  # fmt: skip
            for node in nodes:
                page.add("slurm_job_node", 1, job=number, node=node)
            tres = re.search(r"gres/gpu=(\d+)", job["tres-alloc"])
            # ParallelCluster does not set AccountingStorageTRES=gres/gpu: then of nodes that the job has alone.
            used = [gpus(self.nodes[node]["GresUsed"]) for node in nodes if node in self.nodes and crowds[node] == 1]
            if tres or len(used) == len(nodes):
                page.add("slurm_job_gpus", int(tres.group(1)) if tres else sum(used), job=number)
            if job["StartTime"].isdigit():
                page.add("slurm_job_start_time_seconds", int(job["StartTime"]), job=number)
            if limit := seconds(job["TimeLimit"]):
                page.add("slurm_job_time_limit_seconds", limit, job=number)

    def targets(self, head: str) -> list[dict[str, Any]]:
        """Prometheus' targets: the head node, and the nodes that Slurm can reach."""
        found = [("head", "", head, 9100, "node"), ("head", "", head, 9101, "slurm")]
        for name, node in self.nodes.items():
            # Slurm gives a cloud node that is off its own name as the address.
            off = node["state"].startswith("power") or node["state"] in ("unknown", "future")
            if not off and node["NodeAddr"] not in (name, ""):
                found.append((name, node["PartitionName"], node["NodeAddr"], 9100, "node"))
                if gpus(node["Gres"]):
                    found.append((name, node["PartitionName"], node["NodeAddr"], 9400, "dcgm"))
        return [
            {"targets": [f"{address}:{port}"], "labels": {"node": name, "queue": queue, "job": job}}
            for name, queue, address, port, job in found
        ]


def shares(page: Page) -> None:
    """Add the fair shares, where accounting has them."""
    try:
        output = run("sshare", "--all", "--parsable2", "--noheader", "--format=Account,User,FairShare")
    except (OSError, subprocess.SubprocessError):
        return
    for line in output.decode(errors="replace").splitlines():
        account, user, share, *_ = [*line.strip().split("|"), "", ""]
        if user and re.fullmatch(r"\d+(\.\d+)?", share):
            page.add("slurm_fair_share", float(share), account=account, user=user)


def load(path: Path, user: int) -> dict[str, Any]:
    """A job's file, which must be a regular one of the job's user; ValueError or OSError otherwise."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != user or about.st_size > MOST_BYTES:
            raise ValueError(f"{path} is not a file of the job's user of at most {MOST_BYTES} bytes")
        found = json.loads(file.read(MOST_BYTES))
    if not isinstance(found, dict):
        raise ValueError(f"{path} is not a mapping")
    return found


def newest(folder: Path, jobs: list[Row]) -> dict[str, Path]:
    """The newest `<job>.<random>.json` of each job's user, if it was written since the job's (last) start."""
    owners = {job["JobID"]: (int(job["UserID"]), float(job["StartTime"])) for job in jobs if job["StartTime"].isdigit()}
    found: dict[str, tuple[float, Path]] = {}
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            job, _, rest = entry.name.partition(".")
            if job in owners and rest.endswith(".json"):
                with contextlib.suppress(FileNotFoundError):
                    about, (user, start) = entry.stat(follow_symlinks=False), owners[job]
                    if about.st_uid == user and about.st_mtime >= max(start, found.get(job, (0.0, folder))[0]):
                        found[job] = about.st_mtime, Path(entry)
    return {job: path for job, (_, path) in found.items()}


def finite(value: object) -> float | None:
    """A finite number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e300:
        return None
    return float(value)


def training(folder: Path, jobs: list[Row]) -> str:
    """The page of the running jobs' files."""
    page, paths = Page(), newest(folder, jobs)
    for job in (job for job in jobs if job["JobID"] in paths):
        try:
            found = load(paths[job["JobID"]], int(job["UserID"]))
        except (OSError, ValueError, RecursionError):
            continue
        for key, series in FIGURES.items():
            if (value := finite(found.get(key))) is not None:
                page.add(series, value, job=job["JobID"])
        ranks, nodes = found.get("ranks"), set(hosts(job["NodeList"]))
        left = min(MOST_RANKS - len(page.samples.get("training_rank_step", ())), len(nodes) * MOST_OF_NODE)
        for rank, one in list(ranks.items())[:left] if isinstance(ranks, dict) else ():
            step, node = one if isinstance(one, list) and len(one) == 2 else (None, None)
            if re.fullmatch(r"[0-9]{1,6}", rank) and (value := finite(step)) is not None:
                where = node if isinstance(node, str) and node in nodes else ""
                page.add("training_rank_step", value, job=job["JobID"], rank=rank, node=where)
    return page.text()


class Reading(threading.Thread):
    """Calls a function again and again, and keeps its last answer."""

    def __init__(self, function: Callable[[], str], interval: float) -> None:
        super().__init__(daemon=True)
        self.function, self.interval = function, interval
        self.answer, self.problem = ("", -math.inf), ""

    def run(self) -> None:
        """Read until the process ends."""
        while True:
            try:
                self.answer, problem = (self.function(), time.monotonic()), ""
            except Exception as error:  # whatever it is, the next reading may succeed
                problem = f"{type(error).__name__}: {error}"[:300]
            if problem != self.problem:
                print(problem or "the reading succeeds again", file=sys.stderr, flush=True)
            self.problem = problem
            time.sleep(self.interval)

    def text(self) -> str:
        """The last answer; empty if it is too old."""
        text, at = self.answer
        return text if time.monotonic() - at < STALE_S else ""


def server_of(address: str, port: int, folder: Path | None, interval: float) -> ThreadingHTTPServer:
    """The server, with its threads started."""
    slurm = Slurm()
    readings = [
        Reading(slurm.read, interval),
        Reading(lambda: training(folder, slurm.jobs) if folder else "", interval),
    ]

    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            status, kind, body = 404, "text/plain; charset=utf-8", "/metrics or /targets\n"
            if self.path == "/metrics":
                status, kind = 200, "text/plain; version=0.0.4; charset=utf-8"
                first, second = (reading.text() for reading in readings)
                page = Page()
                page.add("slurm_up", bool(first) and not readings[0].problem)
                body = page.text() + (first and first + second)
            elif self.path == "/targets":
                # Prometheus keeps the list that it has after a status other than 200.
                status, kind = (200, "application/json") if slurm.known else (503, kind)
                body = json.dumps(slurm.targets(address)) if slurm.known else "Slurm has not answered yet\n"
            data = body.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """No line for each request."""

    server = ThreadingHTTPServer((address, port), Handler)
    for reading in readings:
        reading.start()
    return server


def main(arguments: list[str]) -> int:
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="slurm-exporter.py", description="Serves Slurm's state to Prometheus.")
    parser.add_argument("--listen", required=True, metavar="ADDRESS:PORT")
    parser.add_argument("--jobs", type=Path, help="folder of the files that the jobs' watchdogs write")
    parser.add_argument("--interval", type=float, default=15.0, help="seconds between two readings (default 15)")
    options = parser.parse_args(arguments)
    address, _, port = options.listen.rpartition(":")
    if not address or not port.isdigit():
        parser.error(f"--listen '{options.listen}': give ADDRESS:PORT, for example 10.0.16.10:9101")
    try:
        server = server_of(address, int(port), options.jobs, options.interval)
    except (OSError, OverflowError) as error:
        parser.exit(1, f"slurm-exporter.py: cannot listen on {options.listen}: {error}\n")
    print(f"http://{address}:{server.server_address[1]}/metrics", flush=True)
    server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

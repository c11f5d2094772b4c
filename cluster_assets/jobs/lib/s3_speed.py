"""s3_speed.py measure|verdict: how fast nodes write to S3 and read from it, and which of them cannot.

`measure TARGET` copies a file to TARGET/0, TARGET/1 and so on with the AWS CLI, all at the same time, then reads the
objects, and prints one line of JSON: GB/s of both with the start of the CLI, or its `error`. TARGET is s3://BUCKET/KEY.
`verdict RESULTS` compares the nodes and writes verdict.json; RESULTS has `nodes` (a name per line) and each node's
output, NODE.txt.

The standard library and the AWS CLI, version 1 or 2, which ParallelCluster installs in its AMIs (aws-parallelcluster-
cookbook 3.12, recipes/install/awscli.rb). Python 3.9 or later. Exit codes: 0 passed; 1 failed; 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median_high
from typing import Any

SHARE = 0.5
"""A node with less than this share of the usual rate is slow. S3 and the way to it are shared, so that healthy nodes
differ by tens of per cent from one second to the next; a broken interface or route costs more than half."""
_DIRECTIONS = ("write", "read")
_SILENT = "did not answer"


class Failed(Exception):
    """Why a copy failed."""


def run_all(commands: Sequence[Sequence[str]], limit: float) -> float:
    """Run commands at the same time; the seconds until the last one ends."""
    begun = time.monotonic()
    # Errors go to files: a pipe that nobody reads would stop a command.
    with tempfile.TemporaryFile("w+") as errors:
        try:
            running = [subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=errors) for line in commands]
        except FileNotFoundError as problem:
            raise Failed("no aws in PATH: install the AWS CLI, or use an official ParallelCluster AMI") from problem
        try:
            failed = sum(bool(one.wait(max(0.0, begun + limit - time.monotonic()))) for one in running)
        except subprocess.TimeoutExpired as problem:
            for one in running:
                one.kill()
            raise Failed(f"not done in {limit:g} s") from problem
        taken = time.monotonic() - begun
        errors.seek(0)
        lines = [line.strip() for line in errors if line.strip()]
    if failed:
        raise Failed(lines[-1] if lines else f"{failed} of {len(running)} copies failed")
    return taken


def measure(target: str, region: str, procs: int, mib: int, limit: float) -> dict[str, Any]:
    """GB/s by direction, or the error of the first direction that failed."""
    limits = ("--cli-connect-timeout", "10", "--cli-read-timeout", "60")
    aws = ("aws", "s3", "cp", "--only-show-errors", "--region", region, *limits)
    found: dict[str, Any] = {}
    with tempfile.NamedTemporaryFile(prefix="s3-test-") as file:
        file.truncate(mib << 20)  # zeros without memory: nothing on the way compresses them
        objects = [f"{target}/{number}" for number in range(procs)]
        lines = {
            "write": [(*aws, file.name, one) for one in objects],
            "read": [(*aws, one, "-") for one in objects],
        }
        try:
            for direction in _DIRECTIONS:
                found[direction] = round(procs * (mib << 20) / 1e9 / run_all(lines[direction], limit), 3)
        except Failed as problem:
            # The same text on all nodes with the same problem.
            text = re.sub(r"\S*s3-test-\w+", "FILE", str(problem))
            text = re.sub(r"\bi-[0-9a-f]{8,}", "INSTANCE", text)
            for part in (target, target.split("/", 3)[-1]):
                text = re.sub(re.escape(part) + r"/\d+", "OBJECT", text)
            found["error"] = f"{direction}: {text[-300:]}"
    return found


def report_of(text: str) -> dict[str, Any]:
    """The report in the output of `measure`, or why there is none."""
    lines = text.strip().splitlines()
    for line in reversed(lines):
        with suppress(ValueError):
            if isinstance(report := json.loads(line), dict):
                return report
    return {"error": _SILENT + (f": {lines[-1][-200:]}" if lines else "")}


def judge(nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The verdict on the reports of nodes."""
    rates = {key: [one[key] for one in nodes.values() if key in one] for key in _DIRECTIONS}
    # Of two, the faster one: the slower one must not lower what it is compared with.
    peers = {key: median_high(found) for key, found in rates.items() if found}
    alike: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, report in nodes.items():
        if "error" in report:
            alike["silent" if report["error"].startswith(_SILENT) else "error", report["error"]].append(name)
        for key, usual in peers.items():
            if key in report and report[key] < usual * SHARE:
                alike["node", f"{key} {report[key]:g} GB/s, less than {SHARE:.0%} of {usual:g} of its peers"].append(
                    name
                )
    return {
        "passed": not alike and len(peers) == len(_DIRECTIONS),
        "nodes": len(nodes),
        "peers": peers,
        "all": {key: round(sum(found), 2) for key, found in rates.items() if found},
        "share_percent": 100 * SHARE,
        "faults": [{"kind": kind, "nodes": names, "text": text} for (kind, text), names in alike.items()],
        "figures": nodes,
    }


def verdict(results: Path) -> bool:
    """Judge the outputs of a folder, print the verdict and write it; whether it passed."""
    nodes = {}
    for node in (results / "nodes").read_text().split():
        output = results / f"{node}.txt"
        nodes[node] = report_of(output.read_text(errors="replace") if output.is_file() else "")
        shown = ", ".join(f"{key} {nodes[node][key]:g} GB/s" for key in _DIRECTIONS if key in nodes[node])
        print(f"{node}: {shown or 'no figures'}")
    found = judge(nodes)
    for key, rate in found["all"].items():
        print(f"{key}: {found['peers'][key]:g} GB/s is usual, {rate:g} GB/s of all")
    for fault in found["faults"]:
        print(f"FAILED {' '.join(fault['nodes'])}: {fault['text']}")
    (results / "verdict.json").write_text(json.dumps(found, indent=1) + "\n")
    return bool(found["passed"])


def main(arguments: list[str]) -> int:
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(
        prog="s3_speed.py", description="Find nodes that are slow to S3, or cannot use it."
    )
    parser.add_argument("step", choices=("measure", "verdict"))
    parser.add_argument("what", help="of measure: s3://BUCKET/KEY; of verdict: the folder of the outputs")
    parser.add_argument("--region", default="")
    parser.add_argument("--procs", type=int, default=8, help="copies at the same time (default 8)")
    parser.add_argument("--mib", type=int, default=512, help="MiB of each copy (default 512)")
    parser.add_argument("--limit", type=float, default=100, help="seconds of each direction (default 100)")
    options = parser.parse_args(arguments)
    if options.step == "measure":
        report = measure(options.what, options.region, options.procs, options.mib, options.limit)
        print(json.dumps(report), flush=True)
        return int("error" in report)
    try:
        return int(not verdict(Path(options.what)))
    except (OSError, ValueError, KeyError) as problem:
        parser.error(f"cannot be read: {problem}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

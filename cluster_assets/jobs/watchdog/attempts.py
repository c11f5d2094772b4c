"""The attempts of a training job that was requeued: which nodes they accuse, and whether another one is worth it.

    attempts.py conclude FOLDER ...   after an attempt: record it, report bad nodes, and print why there is another one
    attempts.py exclude ...           print the nodes that the next attempt does without

FOLDER is that of watchdog.py. The history has a line of JSON for each attempt. The standard library only, Python 3.9 or
later. Exit codes of conclude: 0 another attempt, 1 none, 3 an unexpected error.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import flight_recorder
from records import files, history, last_step, load, read, run, say, write_json

# Errors of a rank that accuse its node, and that no program causes. Xid events and ECC counters are the health check's.
HARDWARE = re.compile(r"uncorrectable (ECC|NVLink) error|system not yet initialized|GPU is lost")
# The exit code of watchdog.py, as the launcher's status.
NO_VERDICT = 124
UNUSABLE = re.compile(r"down|drain|fail|unk|maint|no_respond|\*$")


def silent_nodes(folder: Path, seconds: float) -> dict[str, str]:
    """Nodes whose heartbeat ended long before the newest, in an attempt that Slurm requeued."""
    times = {path.name: path.stat().st_mtime for path in files(folder / "nodes") if read(path).startswith("running")}
    newest = max(times.values(), default=0.0)
    return {node: "no heartbeat before the requeue" for node, at in times.items() if newest - at > seconds}


def failure(folder: Path, status: int | None) -> dict[str, Any]:
    """What an attempt left that has no verdict."""
    lines, _ = flight_recorder.late(folder / "flight")
    nccl = [line for path in files(folder / "nccl") for line in read(path).splitlines() if "NCCL WARN" in line]
    for line in lines + nccl[:5]:
        say(line)
    found = [(one["time"], path.name, one["error"]) for path in files(folder / "failures") if (one := load(path))]
    kind, text, nodes = "failure", "the program failed", {}
    if status == NO_VERDICT:
        kind, text = "stall", "the watchdog ended the attempt and could not write why"
    elif found:
        _, rank, error = min(found)
        node = (load(folder / "ranks" / rank) or {}).get("node")
        text = f"rank {rank}{f' on {node}' if node else ''} failed first: {error[:300].partition(chr(10))[0]}"
        nodes = {node: f"rank {rank}: {error[:300]}"} if node and HARDWARE.search(error) else {}
    return {"kind": kind, "text": text, "nodes": nodes, "step": last_step(folder), "certain": True}


def conclude(options: argparse.Namespace) -> int:
    """Record an attempt once."""
    folder: Path = options.folder
    if (folder / "concluded").exists():
        return 1
    verdict = load(folder / "verdict.json") or failure(folder, options.status)
    if options.status is None:
        verdict["nodes"] = {**verdict["nodes"], **silent_nodes(folder, options.silence)}
    before = history(options.history)
    further = verdict["step"] > max((one["step"] for one in before), default=-2)
    kept = ("kind", "text", "nodes", "step", "certain")
    line = {**{key: verdict[key] for key in kept}, "further": further, "attempt": folder.name}
    with options.history.open("a") as file:
        file.write(f"\n{json.dumps(line)}\n")  # a line that was cut off has no end
    (folder / "concluded").touch()
    for node, reason in verdict["nodes"].items() if verdict["certain"] else ():
        report(options.reports / node, {"job": options.job, "attempt": folder.name, "reason": reason})
    if verdict["kind"] == "failure" and verdict["step"] < 0:
        say(f"{verdict['text']}; the program reported no step, so the job is not requeued")
        return 1
    latest = [*before, line][-options.attempts :]
    if len(before) >= options.attempts and not any(one["further"] for one in latest):
        say(f"{verdict['text']}; {options.attempts} attempts in a row got no further than the ones before")
        return 1
    print(f"{verdict['text']}, after step {verdict['step']}")
    return 0


def report(folder: Path, what: dict[str, Any]) -> None:
    """Report a bad node, to people and to its health check, which drains it after three reports."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / f"{what['attempt']}.json", {**what, "time": time.strftime("%FT%TZ", time.gmtime())})
        say(f"reported {folder.name} in {folder}: {what['reason']}")
    except OSError as problem:
        # With `people`, only the cluster's user may: three reports drain a node.
        say(f"WARNING: cannot report {folder.name}: {problem}")


def exclude(options: argparse.Namespace) -> int:
    """Print the accused nodes, the latest first, without those that the partition cannot spare."""
    accused = list(dict.fromkeys(node for one in reversed(history(options.history)) for node in one["nodes"]))
    status, output = run(["sinfo", "--noheader", "--Node", f"--partition={options.partition}", "--format=%N %T"], 60)
    if status:
        say(f"WARNING: no node is excluded, because sinfo ended with {status}: {output[:200]}")
        return 0
    rows = [line.split() for line in output.splitlines()]
    accused = [node for node in accused if node in {row[0] for row in rows}]
    usable = {row[0] for row in rows if not UNUSABLE.search(row[1])}
    spare = len(usable - set(accused)) - options.count
    kept = []
    for node in reversed(accused):  # the one accused first comes back first
        if spare < 0 and node in usable:
            spare += 1
            say(f"{node} is not excluded: the job needs {options.count} nodes of the partition {options.partition}")
        else:
            kept.append(node)
    print(",".join(reversed(kept)))
    return 0


def main(arguments: list[str]) -> int:
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="attempts.py", description="The attempts of a training job.")
    commands = parser.add_subparsers(dest="command", required=True)
    concluder, excluder = commands.add_parser("conclude"), commands.add_parser("exclude")
    for command in (concluder, excluder):
        command.add_argument("--job", required=True)
        command.add_argument("--history", type=Path, required=True)
    concluder.add_argument("folder", type=Path)
    concluder.add_argument("--status", type=int, help="of the launcher; none for an attempt that Slurm requeued")
    concluder.add_argument("--silence", type=int, required=True)
    concluder.add_argument("--attempts", type=int, required=True, help="in a row that get no further")
    concluder.add_argument("--reports", type=Path, required=True)
    excluder.add_argument("--partition", required=True)
    excluder.add_argument("--count", type=int, required=True)
    options = parser.parse_args(arguments)
    try:
        return conclude(options) if options.command == "conclude" else exclude(options)
    except Exception as problem:  # such as a full file system: the job must go on
        say(f"WARNING: {options.command}: {problem!r}")
        return 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Calls Slurm's commands and reads their output, of Slurm 22.05 to 25.11. The standard library only, Python 3.9."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator

COMMAND_S = 10.0
# Widths in bytes. Slurm cuts and pads each field, so a record has a fixed size, and no name or comment of a user, which
# may contain line breaks, can look like a record.
NODE = {
    "NodeList": 64, "PartitionName": 64, "NodeAddr": 64, "StateComplete": 128, "Gres": 128, "GresUsed": 128,
    "Reason": 128,
}  # fmt: skip
JOB = {
    "JobID": 12, "UserName": 64, "UserID": 12, "Account": 64, "Partition": 64, "State": 16, "StartTime": 16,
    "TimeLimit": 16, "PendingTime": 12, "tres-alloc": 256, "NodeList": 1024, "Name": 64, "Comment": 128,
    "ArrayTaskID": 256,
}  # fmt: skip
Row = dict[str, str]


def run(*words: str) -> bytes:
    """The output of a command, with times in Unix time; OSError or SubprocessError where it fails."""
    variables = os.environ | {"SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": str(JOB["ArrayTaskID"])}
    return subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, timeout=COMMAND_S, check=True, env=variables
    ).stdout


def table(program: str, fields: dict[str, int], *options: str) -> list[Row]:
    """The records of `program --Format`; ValueError if they do not have the size that was asked for."""
    data = run(program, "--noheader", *options, "--Format=" + ",".join(f"{name}:{w}" for name, w in fields.items()))
    size, rows = sum(fields.values()) + 1, []
    for start in range(0, len(data), size):
        record, at, row = data[start : start + size], 0, {}
        if len(record) < size or record[-1:] != b"\n":
            raise ValueError(f"{program} printed a record that is not of {size} bytes: {record[:80]!r}")
        for name, width in fields.items():
            row[name] = record[at : at + width].decode(errors="replace").strip().replace("(null)", "")
            at += width
        rows.append(row)
    return rows


def state_of(complete: str) -> str:
    """One word for a node's state and its flags (`idle+cloud+powered_down`), the most important first."""
    base, *flags = re.sub(r"[^a-z_+]", "", complete.lower()).split("+")
    power = {"powering_down": "", "powered_down": "", "power_down": "powering_down", "powering_up": "", "power_up": ""}
    for flag in filter(flags.__contains__, power):
        return power[flag] or flag
    busy = base in ("allocated", "mixed") or "completing" in flags
    if base not in ("down", "unknown", "future", "error") and "drain" in flags:
        return "draining" if busy else "drained"
    # Long before Slurm calls the node down: ParallelCluster's SlurmdTimeout is 180 s.
    if "not_responding" in flags and base not in ("down", "unknown", "future", "error"):
        return "not_responding"
    if base == "idle":
        return next((flag for flag in ("fail", "completing", "maint", "reserved", "planned") if flag in flags), base)
    return base


def gpus(gres: str) -> int:
    """The GPUs of `gpu:h100:8(IDX:0-7)`."""
    return sum(int(count) for count in re.findall(r"\bgpu(?::[^:,()]+)?:(\d+)", gres))


def tasks(expression: str) -> int:
    """The tasks of `0-8:2,17%4`, as squeue prints those of an array that wait; 1 for a job without an array."""
    found = re.findall(r"(\d+)(?:-(\d+))?(?::(\d+))?", expression.partition("%")[0])
    return sum((int(last or first) - int(first)) // int(step or 1) + 1 for first, last, step in found) or 1


def hosts(text: str) -> Iterator[str]:
    """The names of a host list, such as `gpu-dy-p5-[1-3,7],cpu-st-c7i-1`."""
    for part in re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", text):
        stem, bracket, rest = part.partition("[")
        numbers, _, tail = rest.partition("]")
        if not bracket:
            yield part
        for item in numbers.split(","):
            first, _, last = item.partition("-")
            if first.isdigit() and (last or first).isdigit():
                for each in range(int(first), int(last or first) + 1):
                    yield from hosts(f"{stem}{each:0{len(first)}d}{tail}")


def seconds(limit: str) -> float | None:
    """Slurm's [DAYS-][HOURS:]MINUTES:SECONDS; None for UNLIMITED."""
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", limit)
    days, hours, minutes, rest = (int(word or 0) for word in found.groups()) if found else (0, 0, 0, 0)
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest if found else None

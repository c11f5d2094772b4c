"""nccl_verdict.py [OPTION...] FILE...: judges the output of nccl-tests or torch_collectives.py, a file per collective.

Each file must have a complete table without wrong values, reach the minimum bandwidths of nccl-floors.json (by instance
type, nodes, collective and message size), and show no fallback to TCP, which NCCL does silently.

The standard library only, Python 3.9 or later. Exit codes: 0 passed; 1 failed; 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

FLOORS = Path(__file__).resolve().parent.parent / "nccl-floors.json"
_COLUMNS = 13
_ENGINE = re.compile(r"^# ((?:nccl-tests|torch) version \S+(?: backend=(?!nccl)\w+)?)", re.MULTILINE)
_STARTING = re.compile(r"Collective test starting: (\w+)_perf")
_LARGEST = re.compile(r"maxBytes (\d+)")
_CHANNEL = re.compile(r"NCCL INFO Channel .* via (\S+)")
_NETWORK = re.compile(r"NCCL INFO Using network (.+?)\s*$", re.MULTILINE)
_PLUGIN = re.compile(r"NET/OFI Selected [Pp]rovider is (\w+)")
# Why no test ran: the dynamic linker's, NCCL's, nccl-tests' and Slurm's own words, whichever is first.
_REASON = re.compile(
    r"error while loading .+|NCCL WARN .+|Test (?:NCCL|CUDA) failure .+|srun: error: .+|^\w*Error: .+",
    re.MULTILINE,
)
_HUNG = re.compile(r"^# srun ended with status 124$", re.MULTILINE)  # of timeout
_SIMULATED = re.compile(r"^# simulated", re.MULTILINE)
_BINARY_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


@dataclass(frozen=True)
class Row:
    """One message size: bytes, GB/s (out-of-place, or in-place if that is all), number of wrong values."""

    bytes: int
    busbw: float
    wrong: int


@dataclass
class Result:
    """One collective's verdict: passed if `faults` is empty."""

    collective: str
    rows: list[Row]
    engine: str
    network: str = ""
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    floors: list[dict[str, float]] = field(default_factory=list)


def size_text(size: int) -> str:
    """A message size for people: 1 GiB, 512 B."""
    for unit, name in _BINARY_UNITS:
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def rows_of(text: str) -> list[Row]:
    """The table of an output. nccl-tests always has out-of-place figures; torch has one form of each collective."""
    rows = []
    for line in text.splitlines():
        # With Slurm's --label each line has a prefix.
        words = re.sub(r"^\s*\d+: ", "", line).split()
        if len(words) == _COLUMNS and words[0].isdigit() and words[1].isdigit():
            wrong = sum(int(word) for word in (words[8], words[12]) if word.isdigit())
            rows.append(Row(int(words[0]), float(words[7] if words[7] != "N/A" else words[11]), wrong))
    return rows


def judge(
    text: str, name: str, *, instance_type: str, nodes: int, efa: bool, floors: Sequence[dict[str, Any]]
) -> Result:
    """The verdict on one output, with NCCL_DEBUG=INFO; `name` is the collective's if the text does not have it."""
    started, engine = _STARTING.search(text), _ENGINE.search(text)
    # nccl-tests names its version since October 2025 (commit 9641693).
    measured = engine.group(1).replace(" version", "") if engine else "nccl-tests"
    result = Result(started.group(1) if started else name, rows_of(text), measured)
    _whole(result, text)
    _transport(result, text, nodes=nodes, efa=efa)
    wrong = [row for row in result.rows if row.wrong]
    if wrong:
        result.faults.append(
            f"{sum(row.wrong for row in wrong)} wrong values, first at {size_text(wrong[0].bytes)}: data was damaged"
        )
    found = {row.bytes: row.busbw for row in result.rows}
    largest = max(found, default=0)
    for entry in floors:
        alike = instance_type in entry["instance_types"] and entry["nodes"] == (1 if nodes == 1 else "many")
        if not alike or entry["collective"] != result.collective or entry["bytes"] > largest:
            continue
        size, floor = int(entry["bytes"]), float(entry["busbw"])
        result.floors.append({"bytes": size, "busbw": floor})
        if size not in found:
            result.faults.append(f"no figure at {size_text(size)}, which has a floor")
        elif found[size] < floor:
            result.faults.append(f"{found[size]:.1f} GB/s at {size_text(size)}, floor {floor:g}: {entry['source']}")
    if not result.floors:
        result.notes.append(f"no floor for {result.collective} on {instance_type or 'an unknown instance type'}")
    return result


def _whole(result: Result, text: str) -> None:
    if _HUNG.search(text):
        until = f" after {size_text(result.rows[-1].bytes)}" if result.rows else ""
        result.faults.append(f"hung{until}: a process, node or link does not answer; pair-test.sbatch names the node")
        return
    if not result.rows:
        reason = _REASON.search(text)
        result.faults.append(f"no table: {reason.group() if reason else 'the test did not run'}, see its output")
        return
    largest, last = _LARGEST.search(text), result.rows[-1].bytes
    if largest and last < int(largest.group(1)) // 2:
        wanted = size_text(int(largest.group(1)))
        result.faults.append(f"the table ends at {size_text(last)} of {wanted}: the test was cut short")
    elif "# Avg bus bandwidth" not in text:
        result.faults.append("the test did not finish")


def _transport(result: Result, text: str, *, nodes: int, efa: bool) -> None:
    channels = set(_CHANNEL.findall(text))
    plugin = _PLUGIN.search(text)
    networks = set(_NETWORK.findall(text))
    # On one node NCCL also names Socket as its network, possibly without using it: there the channels decide.
    socket = sorted(channel for channel in channels if channel.startswith("NET/Socket"))
    if nodes == 1 and channels:
        networks = {"/".join(channel.split("/")[:2]) for channel in channels}
    over_socket = bool(socket) or (nodes > 1 and "Socket" in networks)
    result.network = (plugin and f"OFI {plugin.group(1)}") or ", ".join(sorted(networks)) or "not shown"
    if _SIMULATED.search(text):
        result.network += " (simulated)"
    if over_socket:
        result.faults.append(
            "NCCL fell back to TCP (NET/Socket): check aws-ofi-nccl, the mount of /dev/infiniband, and EFA on the node"
        )
    elif efa and nodes > 1 and not (plugin and plugin.group(1) == "efa"):
        result.faults.append(
            "the log does not show that NCCL used EFA: it needs NCCL_DEBUG=INFO and the plugin aws-ofi-nccl"
        )


def table(results: Sequence[Result]) -> str:
    """The verdicts for people."""
    lines = [f"engine: {', '.join(sorted({result.engine for result in results}))}"]
    lines += [f"{'collective':<16} {'network':<12} {'largest':>9} {'GB/s':>8}  verdict"]
    for result in results:
        last = result.rows[-1] if result.rows else Row(0, 0.0, 0)
        verdict = "FAILED" if result.faults else "passed"
        lines.append(
            f"{result.collective:<16} {result.network:<12} {size_text(last.bytes):>9} {last.busbw:>8.1f}  {verdict}"
        )
        figures = {row.bytes: row.busbw for row in result.rows}
        for floor in result.floors:
            size = int(floor["bytes"])
            lines.append(f"{'':<16} at {size_text(size)}: {figures.get(size, 0):.1f} GB/s, floor {floor['busbw']:g}")
        lines += [f"{'':<16} {text}" for text in (*result.faults, *result.notes)]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="nccl_verdict.py", description="Judge the output of nccl-tests.")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--instance-type", default="", help="of the nodes, for example p5.48xlarge")
    parser.add_argument("--nodes", type=int, required=True, help="number of nodes")
    parser.add_argument("--efa", action="store_true", help="the nodes have EFA and must use it")
    parser.add_argument("--floors", type=Path, default=FLOORS, help="minimum bandwidths (default: nccl-floors.json)")
    parser.add_argument("--json", type=Path, required=True, help="write the verdict to this file")
    options = parser.parse_args(arguments)
    try:
        floors = json.loads(options.floors.read_text())["floors"]
        facts = {"instance_type": options.instance_type, "nodes": options.nodes, "efa": options.efa, "floors": floors}
        results = [judge(path.read_text(errors="replace"), path.stem, **facts) for path in options.files]
    except (OSError, ValueError, KeyError) as problem:
        parser.error(f"cannot be read: {problem}")
    print(table(results))
    failed = any(result.faults for result in results)
    verdict = {
        "passed": not failed,
        "instance_type": options.instance_type,
        "nodes": options.nodes,
        "collectives": [{**asdict(result), "passed": not result.faults} for result in results],
    }
    options.json.write_text(json.dumps(verdict, indent=1) + "\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

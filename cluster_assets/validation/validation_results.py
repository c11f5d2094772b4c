"""What a job of the validation left behind, short: the verdicts of the jobs' own programs, without their tables.

The standard library only, Python 3.9 or later.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

MOST_LINES = 12
MOST_CHARACTERS = 300
_HELLO = re.compile(r"^(\S+): (?:FAILED: )?(\d+) GPUs(?:, and there must be .*)?$", re.MULTILINE)
_FABRIC = re.compile(r"^(\S+): (\S.*?) {2,}(.+?) +wanted (\S+) +(passed|FAILED|-)(?: +(.*))?$", re.MULTILINE)


def of(check: str, folder: Path, output: str) -> Any:  # noqa: ANN401 - JSON
    """The result of a check; None where it left none.

    Args:
        check: the job's name without its prefix.
        folder: its folder for results.
        output: what it printed.
    """
    if check == "host-scan":
        return [of_scan(report) | {"node": name} for name, report in _reports(folder)]
    if check == "hello-gpu":
        return {node: int(count) for node, count in _HELLO.findall(output)}
    if check == "gpu-check":
        return _fabric(output)
    if check == "nccl-tests":
        return _nccl(folder)
    if check == "storage-test":
        return [report for _, report in _reports(folder) if "mount" in report]
    return None


def of_scan(report: Mapping[str, Any]) -> dict[str, Any]:
    """A scan's report, with only those lines that ask for something."""
    bad = [line for line in report.get("lines", []) if line.get("verdict") in ("failure", "warning")]
    bad.sort(key=lambda line: line["verdict"])
    lines = [{key: str(value)[:MOST_CHARACTERS] for key, value in line.items()} for line in bad[:MOST_LINES]]
    return {**{key: report.get(key) for key in ("host", "verdict", "counts")}, "lines": lines}


def _fabric(output: str) -> dict[str, list[dict[str, str]]]:
    """The lines of fabric_check.py by node."""
    found: dict[str, list[dict[str, str]]] = {}
    for node, what, shown, wanted, verdict, do in _FABRIC.findall(output):
        line = {"what": what, "found": shown.strip(), "wanted": wanted, "verdict": verdict, "do": do.strip()}
        found.setdefault(node, []).append(line)
    return found


def _nccl(folder: Path) -> dict[str, Any] | None:
    try:
        verdict = json.loads((folder / "verdict.json").read_text())
    except (OSError, ValueError):
        return None
    return {
        "passed": verdict["passed"],
        "nodes": verdict["nodes"],
        "instance_type": verdict["instance_type"],
        "collectives": [_collective(one) for one in verdict["collectives"]],
    }


def _collective(one: Mapping[str, Any]) -> dict[str, Any]:
    """A collective with the figures that have a floor, and that of the largest message."""
    rates = {row["bytes"]: row["busbw"] for row in one["rows"]}
    floors = [{**floor, "found": rates.get(floor["bytes"])} for floor in one["floors"]]
    largest = max(rates, default=0)
    return {
        **{key: one[key] for key in ("collective", "passed", "network", "notes")},
        "faults": [text[:MOST_CHARACTERS] for text in one["faults"]],
        "floors": floors,
        "largest": {"bytes": largest, "busbw": rates.get(largest, 0)},
    }


def _reports(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each JSON object of a folder that can be read, by its file's name."""
    for path in sorted(folder.glob("*.json")):
        try:
            content = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        if isinstance(content, dict):
            yield path.stem, content

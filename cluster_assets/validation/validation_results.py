"""The results of a validation job in short form: its programs' verdicts, and their figures as far as they fit.

The standard library only, Python 3.9 or later.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

MOST_LINES = 12
MOST_CHARACTERS = 300
MOST_FAULTS, MOST_NAMES = 60, 8
"""Faults in a result, and node names in a fault."""
MOST_SLOWEST = 100
"""Nodes in `slowest`, those with the lowest figures."""
MOST_JSON = 15000
"""Characters of JSON for all nodes of a job."""
# Tried until all fits: lines per node, whether warnings stay, characters per text.
_CUTS = ((MOST_LINES, True, MOST_CHARACTERS), (MOST_LINES, False, MOST_CHARACTERS), (4, False, 100), (1, False, 40))
_HELLO = re.compile(r"^(\S+): (?:FAILED: )?(\d+) GPUs(?:, and there must be .*)?$", re.MULTILINE)
_HELLO_BAD = re.compile(r"^(\S+): (?:FAILED: (\d+) GPUs, and there must be (\d+)|nvidia-smi failed)", re.MULTILINE)
_NODE_KINDS = ("node", "silent", "gpu")
"""Kinds of faults of tournament.py and gpu_burn.py that are of one node."""
_FABRIC = re.compile(r"^(\S+): (\S.*?) {2,}(.+?) +wanted (\S+) +(passed|FAILED|-)(?: +(.*))?$", re.MULTILINE)


def of(check: str, folder: Path, output: str) -> Any:  # noqa: ANN401 - JSON
    """The result of the job `check`, from its folder for results and what it printed; None if it has none."""
    if check == "host-scan":
        return fitted([{**of_scan(report), "node": name} for name, report in _reports(folder)])
    if check == "hello-gpu":
        return {node: int(count) for node, count in _HELLO.findall(output)}
    if check == "gpu-check":
        return {node["node"]: node for node in fitted(_fabric(output))}
    if check in ("nccl-tests", "pair-test", "gpu-burn", "s3-test"):
        return _of_verdict(check, folder)
    if check == "storage-test":
        return [report for _, report in _reports(folder) if "mount" in report]
    return None


def bad(check: str, folder: Path, output: str) -> tuple[dict[str, str], int]:
    """The nodes that the results of the job `check` name as bad, with the reasons, and how many nodes it asked."""
    if check == "host-scan":
        reports = dict(_reports(folder))
        failures = {
            name: " ".join(line["name"] for line in report.get("lines", ()) if line["verdict"] == "failure")
            for name, report in reports.items()
            if report.get("verdict") == "failure"
        }
        return failures, len(reports)
    if check == "hello-gpu":
        found = {node: f"{count} of {wanted} GPUs" if count else "nvidia-smi failed" for node, count, wanted in
                 _HELLO_BAD.findall(output)}  # fmt: skip
        return found, len({*found, *(node for node, _ in _HELLO.findall(output))})
    if check == "gpu-check":
        nodes = _fabric(output)
        return {
            node["node"]: " ".join(line["what"] for line in node["lines"]) for node in nodes if node["failed"]
        }, len(nodes)
    if check not in ("pair-test", "gpu-burn"):
        return {}, 0
    verdict: dict[str, Any] = json.loads((folder / "verdict.json").read_text())
    faults = [fault for fault in verdict["faults"] if fault["kind"] in _NODE_KINDS]
    if check == "pair-test":
        for fault in faults:
            fault["text"] = f"{fault['found']:g} of {fault['peers']:g} GB/s" if fault["found"] else "no answer"
    return {name: fault["text"] for fault in faults for name in fault["nodes"]}, verdict["nodes"]


def of_scan(report: Mapping[str, Any]) -> dict[str, Any]:
    """A scan's report with only its failures and warnings."""
    bad = [line for line in report.get("lines", []) if line.get("verdict") in ("failure", "warning")]
    bad.sort(key=lambda line: line["verdict"])
    lines = [{key: str(value)[:MOST_CHARACTERS] for key, value in line.items()} for line in bad[:MOST_LINES]]
    return {
        **{key: report.get(key) for key in ("host", "verdict", "counts")},
        "lines": lines,
        "left_out": len(bad) - len(lines),
    }


def fitted(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The nodes' lines, shortened to fit: first without warnings, then with shorter texts and fewer failures.

    `left_out` counts the removed lines.
    """
    for lines, warnings, characters in _CUTS:
        cut = [_cut(node, lines, warnings, characters) for node in nodes]
        if len(json.dumps(cut, separators=(",", ":"))) <= MOST_JSON:
            return cut
    # Only the verdicts, which name the failed nodes.
    return [_cut(node, 0, False, 0) for node in nodes]


def _cut(node: Mapping[str, Any], most: int, warnings: bool, characters: int) -> dict[str, Any]:
    kept = [line for line in node["lines"] if warnings or line["verdict"] != "warning"][:most]
    lines = [{key: text[:characters] for key, text in line.items()} for line in kept]
    return {**node, "lines": lines, "left_out": node.get("left_out", 0) + len(node["lines"]) - len(lines)}


def _fabric(output: str) -> list[dict[str, Any]]:
    """The lines of fabric_check.py by node: the number that passed, and those that failed."""
    found: dict[str, dict[str, Any]] = {}
    for name, what, shown, wanted, verdict, do in _FABRIC.findall(output):
        node = found.setdefault(name, {"node": name, "passed": 0, "failed": 0, "lines": []})
        node["passed"] += verdict == "passed"
        if verdict == "FAILED":
            node["failed"] += 1
            line = {"what": what, "found": shown.strip(), "wanted": wanted, "verdict": verdict, "do": do.strip()}
            node["lines"].append(line)
    return list(found.values())


def _of_verdict(check: str, folder: Path) -> dict[str, Any] | None:
    try:
        verdict = json.loads((folder / "verdict.json").read_text())
    except (OSError, ValueError):
        return None
    if check == "nccl-tests":
        return _nccl(verdict)
    if check in ("gpu-burn", "s3-test"):
        return _compared(verdict)
    listed = folder / "nodes"
    return _pairs(verdict, listed.read_text().split() if listed.is_file() else [])


def _faults(verdict: Mapping[str, Any]) -> dict[str, Any]:
    """The verdict on GPUs or pairs of nodes, without their figures."""
    faults = [
        {
            "kind": fault["kind"],
            "text": fault["text"][:MOST_CHARACTERS],
            "nodes": nodes[:MOST_NAMES],
            "left_out": len(nodes[MOST_NAMES:]),
        }
        for fault in verdict["faults"][:MOST_FAULTS]
        for nodes in [fault["nodes"]]
    ]
    while len(json.dumps(faults, separators=(",", ":"))) > MOST_JSON:
        faults.pop()
    kept = {key: value for key, value in verdict.items() if key != "figures"}
    return {**kept, "faults": faults, "left_out": len(verdict["faults"]) - len(faults)}


def _pairs(verdict: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The verdict on the pairs of nodes, with the figures of all pairs, or of the slowest nodes, as far as they fit."""
    found = _faults(verdict)
    room = MOST_JSON - len(json.dumps(found))
    figures = [[one, other, _short(rate)] for one, other, rate in verdict["figures"]]
    if len(json.dumps([names, figures], separators=(",", ":"))) <= room:
        return {**found, "names": names, "figures": figures}
    # A pair is as fast as the slower of its nodes, so a node is as fast as its best pair.
    best: dict[str, float] = {}
    for *pair, rate in figures:
        for place in pair if names else ():
            best[names[place]] = max(rate or 0.0, best.get(names[place], 0.0))
    return {**found, "slowest": _slowest(best, room)}


def _compared(verdict: Mapping[str, Any]) -> dict[str, Any]:
    """The verdict on GPUs or on S3, with the slowest GPU or direction of each node, as far as they fit."""
    found = _faults(verdict)
    least = {}
    for node, report in verdict.get("figures", {}).items():
        rates = [gpu["tflops"] for gpu in report.get("gpus", ()) if "tflops" in gpu]
        least[node] = min([*rates, *(report[key] for key in ("write", "read") if key in report)], default=0.0)
    return {**found, "slowest": _slowest(least, MOST_JSON - len(json.dumps(found)))}


def _slowest(figures: Mapping[str, float], room: int) -> list[tuple[str, float]]:
    """The nodes with the lowest figures, as many as fit."""
    found = sorted(figures.items(), key=lambda node: node[1])[:MOST_SLOWEST]
    while found and len(json.dumps(found)) > room:
        found = found[: len(found) // 2]
    return found


def _short(rate: float | None) -> float | None:
    """A figure of four digits."""
    return None if rate is None else float(f"{rate:.4g}")


def _nccl(verdict: Mapping[str, Any]) -> dict[str, Any]:
    collectives = [_collective(one) for one in verdict["collectives"]]
    return {"passed": verdict["passed"], "nodes": verdict["nodes"], "collectives": collectives}


def _collective(one: Mapping[str, Any]) -> dict[str, Any]:
    """A collective with the figures of its floors and of the largest message."""
    rates = {row["bytes"]: row["busbw"] for row in one["rows"]}
    floors = [{**floor, "found": rates.get(floor["bytes"])} for floor in one["floors"]]
    largest = max(rates, default=0)
    return {
        **{key: one[key] for key in ("collective", "passed", "engine", "network")},
        "faults": [text[:MOST_CHARACTERS] for text in one["faults"]],
        "floors": floors,
        "largest": {"bytes": largest, "busbw": rates.get(largest, 0)},
        "rows": [[size, _short(rate)] for size, rate in rates.items()],
    }


def _reports(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The readable JSON objects of a folder, by file name."""
    for path in sorted(folder.glob("*.json")):
        try:
            content = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        if isinstance(content, dict):
            yield path.stem, content

"""storage_verdict.py: compares the results of IOR, mdtest or fio on one mount with the provisioned throughput.

The target is the mount's throughput_mb_s in settings.json, but at most 10,000 MB/s a node, because few clients cannot
use all of a large file system. A mount without a target is shown and not judged. If several numbers of nodes measured,
the highest throughput counts, and the verdict says where more nodes stop helping.

The standard library only, Python 3.9 or later. Exit codes: 0 passed; 1 failed; 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

_MIB = 1 << 20
_MB = 1_000_000
_CLIENT_MB_S = 10_000
_DIRECTIONS = ("write", "read")
_LINEAR = 0.8
"""If n nodes reach less than this share of n times the rate of one, the nodes are not the limit."""


def ior(text: str) -> dict[str, float]:
    """MB/s by direction, the mean of IOR's summary."""
    found = re.findall(r"(?m)^(write|read) +[\d.]+ +[\d.]+ +([\d.]+) ", text)
    return {direction: float(mean) * _MIB / _MB for direction, mean in found}


def mdtest(text: str) -> dict[str, float]:
    """Mean operations per second by operation, from mdtest's summary."""
    row = r"(?m)^\s*((?:File|Directory) (?:creation|stat|read|removal))\s*:?\s+[\d.]+\s+[\d.]+\s+([\d.]+)"
    return {operation.lower(): float(mean) for operation, mean in re.findall(row, text)}


def fio(folder: Path, prefix: str, nodes: int) -> tuple[dict[str, float], bool]:
    """MB/s by direction, summed over the nodes, without failed directions; and whether they are simulated."""
    found = {}
    simulated = False
    for direction in _DIRECTIONS:
        rates = []
        for path in sorted(folder.glob(f"{prefix}-fio-{direction}-*.json")):
            text = path.read_text()
            report = json.loads(text[text.index("{") :])
            simulated |= report.get("fio version") == "simulated"
            if not any(job["error"] for job in report["jobs"]):
                rates.append(sum(job[direction]["bw_bytes"] for job in report["jobs"]) / _MB)
        if len(rates) == nodes:
            found[direction] = sum(rates)
    return found, simulated


def scaling(steps: dict[int, dict[str, float]], provisioned: float | None, fraction: float) -> list[str]:
    """Where more nodes stop helping, by direction; `steps` are the rates by number of nodes, ascending."""
    found = []
    for direction in _DIRECTIONS:
        rates = {nodes: rates[direction] for nodes, rates in steps.items() if direction in rates}
        if len(rates) < 2:
            continue
        (least, rate), *_ = rates.items()
        each = rate / least
        full = [nodes for nodes, rate in rates.items() if provisioned and rate >= provisioned * fraction]
        bent = [nodes for nodes, rate in rates.items() if rate < _LINEAR * each * nodes]
        if full:
            text = f"the file system's limit is reached by {full[0]} of {max(rates)} nodes"
        elif bent:
            before = max(nodes for nodes in rates if nodes < bent[0])
            text = f"more than {before} of {max(rates)} nodes help little: the file system or the network is the limit"
        else:
            text = f"the nodes are the limit, {each:.0f} MB/s each"
        found.append(f"{direction}: {text}")
    return found


def judge(
    steps: dict[int, dict[str, float]], rates: dict[str, float], target: float | None, fraction: float
) -> list[str]:
    """Faults of the throughput by direction; `rates` are the highest."""
    faults = [
        f"no figure for {direction} from {nodes} node{'s' * (nodes > 1)}: the test failed, see its output"
        for nodes, found in steps.items()
        for direction in _DIRECTIONS
        if direction not in found
    ]
    if target is not None:
        floor = target * fraction
        faults += [
            f"{direction} {rate:.0f} MB/s, floor {floor:.0f} ({fraction:.0%} of {target:.0f})"
            for direction, rate in rates.items()
            if rate < floor
        ]
    return faults


def main(arguments: list[str]) -> int:
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="storage_verdict.py", description="Judge a storage test.")
    add = parser.add_argument
    add("--tool", choices=("ior", "fio"), required=True)
    add("--settings", type=Path, required=True, help="settings.json of the environment")
    add("--mount", required=True, help="path of the mount")
    add("--outputs", type=Path, required=True, help="folder and name prefix of the outputs")
    add("--fraction", type=float, default=80, help="required per cent of the target")
    add("--clients", type=lambda text: sorted(map(int, text.split(","))), required=True, help="numbers of nodes")
    add("--json", type=Path, required=True, help="write the verdict to this file")
    options = parser.parse_args(arguments)
    folder, prefix = options.outputs.parent, options.outputs.name
    metadata: dict[str, float] = {}
    simulated = False
    steps = {}
    try:
        mounts = json.loads(options.settings.read_text())["mounts"]
        mount = next((one for one in mounts if one["path"] == options.mount), None)
        if mount is None:
            allowed = ", ".join(one["path"] for one in mounts)
            parser.error(f"--mount '{options.mount}' is not a mount; allowed: {allowed}")
        provisioned = mount.get("throughput_mb_s")
        target = None if provisioned is None else min(float(provisioned), _CLIENT_MB_S * options.clients[-1])
        for nodes in options.clients:
            if options.tool == "ior":
                text = (folder / f"{prefix}-{nodes}-ior.txt").read_text()
                steps[nodes], fake = ior(text), bool(re.search(r"(?m)^# simulated", text))
            else:
                steps[nodes], fake = fio(folder, f"{prefix}-{nodes}", nodes)
            simulated |= fake
        if options.tool == "ior":
            metadata = mdtest((folder / f"{prefix}-mdtest.txt").read_text())
    except (OSError, ValueError, KeyError) as problem:
        parser.error(f"cannot be read: {problem}")
    rates = {
        direction: max(found[direction] for found in steps.values() if direction in found)
        for direction in _DIRECTIONS
        if any(direction in found for found in steps.values())
    }
    faults = judge(steps, rates, target, options.fraction / 100)
    limits = scaling(steps, provisioned, options.fraction / 100)
    if options.tool == "ior" and not metadata:
        faults.append("no figures of mdtest: it failed, see its output")
    suffix = (f" of {target:.0f}" if target else ", not judged") + (" (simulated)" if simulated else "")
    for nodes, found in steps.items():
        for direction, rate in found.items():
            print(f"{options.mount}: {direction:<6} {rate:>8.0f} MB/s{suffix}, {nodes} node{'s' * (nodes > 1)}")
    for limit in limits:
        print(f"{options.mount}: {limit}")
    for operation, rate in metadata.items():
        print(f"{options.mount}: {operation:<18} {rate:>10.0f}/s")
    for fault in faults:
        print(f"{options.mount}: FAILED: {fault}")
    verdict = {
        "mount": options.mount,
        "passed": not faults,
        "simulated": simulated,
        "provisioned_mb_s": provisioned,
        "target_mb_s": target,
        "mb_s": rates,
        "steps": [{"nodes": nodes, "mb_s": found} for nodes, found in steps.items()],
        "scaling": limits,
        "metadata_per_s": metadata,
        "faults": faults,
    }
    options.json.write_text(json.dumps(verdict, indent=1) + "\n")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""storage_verdict.py: compares the results of IOR, mdtest or fio on one mount with the provisioned throughput.

The target is the mount's throughput_mb_s in settings.json, but at most 10,000 MB/s a node, because few clients cannot
use all of a large file system. A mount without a target is shown and not judged.

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


def judge(rates: dict[str, float], target: float | None, fraction: float) -> list[str]:
    """Faults of the throughput by direction."""
    missing = [direction for direction in _DIRECTIONS if direction not in rates]
    faults = [f"no figure for {direction}: the test failed, see its output" for direction in missing]
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
    add("--nodes", type=int, required=True)
    add("--json", type=Path, required=True, help="write the verdict to this file")
    options = parser.parse_args(arguments)
    folder, prefix = options.outputs.parent, options.outputs.name
    metadata: dict[str, float] = {}
    simulated = False
    try:
        mounts = json.loads(options.settings.read_text())["mounts"]
        mount = next((one for one in mounts if one["path"] == options.mount), None)
        if mount is None:
            allowed = ", ".join(one["path"] for one in mounts)
            parser.error(f"--mount '{options.mount}' is not a mount; allowed: {allowed}")
        provisioned = mount.get("throughput_mb_s")
        target = None if provisioned is None else min(float(provisioned), _CLIENT_MB_S * options.nodes)
        if options.tool == "ior":
            text = (folder / f"{prefix}-ior.txt").read_text()
            rates, simulated = ior(text), bool(re.search(r"(?m)^# simulated", text))
            metadata = mdtest((folder / f"{prefix}-mdtest.txt").read_text())
        else:
            rates, simulated = fio(folder, prefix, options.nodes)
    except (OSError, ValueError, KeyError) as problem:
        parser.error(f"cannot be read: {problem}")
    faults = judge(rates, target, options.fraction / 100)
    if options.tool == "ior" and not metadata:
        faults.append("no figures of mdtest: it failed, see its output")
    suffix = (f" of {target:.0f}" if target else ", not judged") + (" (simulated)" if simulated else "")
    for direction, rate in rates.items():
        print(f"{options.mount}: {direction:<6} {rate:>8.0f} MB/s{suffix}")
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
        "metadata_per_s": metadata,
        "faults": faults,
    }
    options.json.write_text(json.dumps(verdict, indent=1) + "\n")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

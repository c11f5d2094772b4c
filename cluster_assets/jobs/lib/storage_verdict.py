"""storage_verdict.py: judges IOR, mdtest or fio on one mount against what the file system is provisioned for.

The figure is that of the mount in settings.json: for Lustre its TiB times its MB/s per TiB. Fewer clients than the file
system can serve are no fault of it, so it is bounded by --client-mb-s times the nodes. A mount without one is shown
and not judged.

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


def ior(text: str) -> dict[str, float]:
    """MB/s by direction, from IOR's summary: the mean of its iterations."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) > 3 and words[0] in ("write", "read") and re.fullmatch(r"[\d.]+", words[3]):
            found[words[0]] = float(words[3]) * _MIB / _MB
    return found


def mdtest(text: str) -> dict[str, float]:
    """Operations a second, mean, by operation, from mdtest's summary."""
    found = {}
    for line in text.splitlines():
        match = re.match(r"\s*(File|Directory) (creation|stat|read|removal)\s*:?\s+[\d.]+\s+[\d.]+\s+([\d.]+)", line)
        if match:
            found[f"{match.group(1)} {match.group(2)}".lower()] = float(match.group(3))
    return found


def fio(folder: Path, prefix: str, nodes: int) -> dict[str, float]:
    """MB/s by direction: the sum over nodes. A direction for which a node's file is missing is left out."""
    found = {}
    for direction in ("write", "read"):
        rates = []
        for path in sorted(folder.glob(f"{prefix}-fio-{direction}-*.json")):
            text = path.read_text()
            jobs = json.loads(text[text.index("{") :])["jobs"]
            if any(job["error"] for job in jobs):
                continue
            rates.append(sum(job[direction]["bw_bytes"] for job in jobs) / _MB)
        if len(rates) == nodes:
            found[direction] = sum(rates)
    return found


def judge(rates: dict[str, float], target: float | None, fraction: float) -> list[str]:
    """Faults of the throughput by direction."""
    missing = [direction for direction in ("write", "read") if direction not in rates]
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
    """The command line; see the module's text."""
    parser = argparse.ArgumentParser(prog="storage_verdict.py", description="Judge a storage test.")
    parser.add_argument("--tool", choices=("ior", "fio"), required=True)
    parser.add_argument("--settings", type=Path, required=True, help="settings.json of the environment")
    parser.add_argument("--mount", required=True, help="path of the mount")
    parser.add_argument("--outputs", type=Path, required=True, help="folder and beginning of the names of the outputs")
    parser.add_argument("--fraction", type=float, default=80, help="per cent of the provisioned figure")
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument(
        "--client-mb-s", type=float, default=10_000, help="MB/s that one node can take (default: 10000)"
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    try:
        mounts = json.loads(options.settings.read_text())["mounts"]
        entry = next((one for one in mounts if one["path"] == options.mount), None)
        if entry is None:
            parser.error(f"'{options.mount}' is no mount; there are: {', '.join(one['path'] for one in mounts)}")
        whole = entry.get("throughput_mb_s")
        target = None if whole is None else min(float(whole), options.client_mb_s * options.nodes)
        folder, prefix = options.outputs.parent, options.outputs.name
        metadata: dict[str, float] = {}
        if options.tool == "ior":
            rates = ior((folder / f"{prefix}-ior.txt").read_text())
            metadata = mdtest((folder / f"{prefix}-mdtest.txt").read_text())
        else:
            rates = fio(folder, prefix, options.nodes)
    except (OSError, ValueError, KeyError) as problem:
        parser.error(f"cannot be read: {problem}")
    faults = judge(rates, target, options.fraction / 100)
    if options.tool == "ior" and not metadata:
        faults.append("no figures of mdtest: it failed, see its output")
    for direction, rate in rates.items():
        print(
            f"{options.mount}: {direction:<6} {rate:>8.0f} MB/s" + (f" of {target:.0f}" if target else ", not judged")
        )
    for operation, rate in metadata.items():
        print(f"{options.mount}: {operation:<18} {rate:>10.0f}/s")
    for fault in faults:
        print(f"{options.mount}: FAILED: {fault}")
    if options.json:
        verdict = {
            "mount": options.mount,
            "passed": not faults,
            "provisioned_mb_s": whole,
            "target_mb_s": target,
            "mb_s": rates,
            "metadata_per_s": metadata,
            "faults": faults,
        }
        options.json.write_text(json.dumps(verdict, indent=1) + "\n")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

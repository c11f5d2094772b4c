"""Time of `cdk synth` compared with an empty Python CDK app: `python scripts/benchmarks/synth.py [environment]`.

Both run in turn, with library validation off; the fastest run of each counts, so that other load on the machine
matters little. CPU time is that of the CLI, Python and Node together.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
EMPTY = 'import aws_cdk as cdk\n\napp = cdk.App()\ncdk.Stack(app, "Empty")\napp.synth()\n'


def main() -> int:
    """Measure, and print one JSON object: seconds, and the ratio to the empty app."""
    parser = argparse.ArgumentParser(description="Time of cdk synth compared with an empty Python CDK app.")
    parser.add_argument("environment", nargs="?", default="jakarta-80xp5e")
    parser.add_argument("--runs", type=int, default=5, help="of each app (default: 5)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder, "app.py")
        empty.write_text(EMPTY, encoding="utf-8")
        apps = {
            "empty": ["--app", f"{sys.executable} {empty}", "--output", f"{folder}/empty"],
            "synth": ["-c", f"env={arguments.environment}", "--output", f"{folder}/synth"],
        }
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in apps}
        for _ in range(arguments.runs):
            for name, options in apps.items():
                times[name].append(_run(options))
    best = {name: [min(values) for values in zip(*runs, strict=True)] for name, runs in times.items()}
    report = {
        f"{kind}_{name}": round(best[name][index], 2) for index, kind in enumerate(("wall_s", "cpu_s")) for name in apps
    }
    ratios = {
        f"{kind}_ratio": round(best["synth"][index] / best["empty"][index], 2)
        for index, kind in enumerate(("wall", "cpu"))
    }
    print(json.dumps({**report, **ratios}, indent=1))
    return 0


def _run(options: list[str]) -> tuple[float, float]:
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [ROOT / "node_modules" / ".bin" / "cdk", "synth", "-q", *options],
        cwd=ROOT,
        env={**os.environ, "CDK_VALIDATION": "false"},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, cpu


if __name__ == "__main__":
    sys.exit(main())

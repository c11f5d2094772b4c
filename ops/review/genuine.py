"""Asks the installed ParallelCluster package, which lives in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ops.problem import Problem

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / "parallelcluster" / ".venv" / "bin" / "python"
LIMIT_S = 120

Step = tuple[str, Mapping[str, Any], Mapping[str, Any]]
"""Name of the cluster, the old configuration, the new one."""


def examine(steps: Mapping[str, Step]) -> dict[str, dict[str, Any]]:
    """`parallelcluster.policies.examine` for each step, by the keys of `steps`.

    Raises:
        Problem: the package is not installed, or cannot compare the configurations.
    """
    if not PYTHON.exists():
        raise Problem(
            f"{PYTHON.relative_to(ROOT)} is missing, which holds ParallelCluster. Install it with: make setup"
        )
    given = {key: {"name": name, "old": old, "new": new} for key, (name, old, new) in steps.items()}
    # None of the user's AWS settings: nothing here asks AWS.
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG", "TMPDIR") if key in os.environ}
    try:
        result = subprocess.run(
            [str(PYTHON), "-m", "parallelcluster.changes"],
            cwd=ROOT,
            env=kept,
            input=json.dumps(given),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Problem(f"ParallelCluster's update policies gave no answer within {LIMIT_S} s.") from error
    if result.returncode:
        lines = result.stderr.strip().splitlines() or ["no word"]
        raise Problem(f"ParallelCluster's update policies cannot compare the configurations: {lines[-1]}")
    answers: dict[str, dict[str, Any]] = json.loads(result.stdout)
    return answers

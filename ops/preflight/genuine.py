"""Asks the installed ParallelCluster package, which lives in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ops.problem import Problem

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / "parallelcluster" / ".venv" / "bin" / "python"
LIMIT_S = 180


@dataclass(frozen=True)
class Images:
    """How the package looks for official images of one operating system and architecture (parallelcluster.images)."""

    version: str
    pattern: str
    private: bool
    tag: str


def images(os_name: str, architecture: str) -> Images:
    """Where the package looks.

    Raises:
        Problem: the package is not installed, or does not answer.
    """
    return Images(**_run("parallelcluster.images", os_name, architecture))


def check(name: str, configuration: Mapping[str, Any]) -> dict[str, Any]:
    """What `parallelcluster.check` says of a configuration: schema, validators and template builder.

    Raises:
        Problem: the package is not installed, or does not answer.
    """
    with tempfile.TemporaryDirectory(prefix="trainyard-preflight-") as folder:
        file = Path(folder) / f"{name}.json"
        file.write_text(json.dumps(configuration), "utf-8")
        answer: dict[str, Any] = _run("parallelcluster.check", str(file), good=(0, 1))[name]
        return answer


def _run(module: str, *arguments: str, good: tuple[int, ...] = (0,)) -> dict[str, Any]:
    if not PYTHON.exists():
        raise Problem(
            f"{PYTHON.relative_to(ROOT)} is missing, which holds ParallelCluster. Install it with: make setup"
        )
    # None of the user's AWS settings: nothing here asks AWS.
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG", "TMPDIR") if key in os.environ}
    try:
        result = subprocess.run(
            [str(PYTHON), "-m", module, *arguments],
            cwd=ROOT,
            env=kept,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Problem(f"{module} gave no answer within {LIMIT_S} s.") from error
    if result.returncode not in good:
        lines = result.stderr.strip().splitlines() or ["no word"]
        raise Problem(f"{module} does not answer: {lines[-1]}")
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer

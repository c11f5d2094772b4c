"""Runs modules of parallelcluster/ in the Python environment that has the ParallelCluster package; none calls AWS.

Every function raises Problem where the package is not installed, or fails.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ops.problem import Problem

ROOT = Path(__file__).resolve().parents[1]
PYTHON = ROOT / "parallelcluster" / ".venv" / "bin" / "python"
LIMIT_S = 180
KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "JSII_RUNTIME_PACKAGE_CACHE", "JSII_RUNTIME_PACKAGE_CACHE_ROOT")

Step = tuple[str, Mapping[str, Any], Mapping[str, Any]]
"""Name of the cluster, the old configuration, the new one."""


@dataclass(frozen=True)
class Images:
    """How the package looks for official images of one operating system and architecture (parallelcluster.images)."""

    version: str
    pattern: str
    tag: str


def compare_configurations(steps: Mapping[str, Step]) -> dict[str, dict[str, Any]]:
    """`parallelcluster.policies.examine` for each step, by the keys of `steps`."""
    given = {key: {"name": name, "old": old, "new": new} for key, (name, old, new) in steps.items()}
    return _run("parallelcluster.policies", given=json.dumps(given))


def images(os_name: str, architecture: str) -> Images:
    """How the package finds its official images."""
    return Images(**_run("parallelcluster.images", os_name, architecture))


def check(name: str, configuration: Mapping[str, Any]) -> dict[str, Any]:
    """What `parallelcluster.check` reports on a configuration: schema, validators and template builder."""
    with tempfile.TemporaryDirectory(prefix="trainyard-preflight-") as folder:
        file = Path(folder) / f"{name}.json"
        file.write_text(json.dumps(configuration), "utf-8")
        answer: dict[str, Any] = _run("parallelcluster.check", str(file), accepted=(0, 1))[name]
        return answer


def _run(module: str, *arguments: str, given: str = "", accepted: tuple[int, ...] = (0,)) -> dict[str, Any]:
    if not PYTHON.exists():
        name = PYTHON.relative_to(ROOT)
        raise Problem(f"{name}, which runs ParallelCluster, is missing. Install it with: make setup")
    try:
        result = subprocess.run(
            [str(PYTHON), "-m", module, *arguments],
            cwd=ROOT,
            # No AWS settings of the user.
            env={key: os.environ[key] for key in KEPT if key in os.environ},
            input=given,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Problem(f"{module} did not answer within {LIMIT_S} s.") from error
    if result.returncode not in accepted:
        lines = result.stderr.strip().splitlines() or ["no error message"]
        raise Problem(f"{module} failed: {lines[-1]}")
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer

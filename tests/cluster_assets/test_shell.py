"""Every script is clean in shellcheck and shfmt, and the parts fit together."""

from __future__ import annotations

import stat
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ASSETS = ROOT / "cluster_assets"
TOOLS = Path(sysconfig.get_path("scripts"))
SCRIPTS = sorted([*ASSETS.rglob("*.sh"), *ASSETS.rglob("*.sbatch")])


@pytest.mark.parametrize("line", ["shellcheck -x", "shfmt -d -i 2 -ci"])
def test_lint(line: str) -> None:
    tool, *options = line.split()
    done = subprocess.run([TOOLS / tool, *options, *SCRIPTS], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: str(script.relative_to(ASSETS)))
def test_executable_with_unix_line_ends(script: Path) -> None:
    assert b"\r" not in script.read_bytes()
    if script.read_text().startswith("#!"):
        assert script.stat().st_mode & stat.S_IXUSR


def test_each_role_lists_steps_that_exist_and_each_step_has_a_role() -> None:
    listed = {step for role in (ASSETS / "roles").iterdir() for step in role.read_text().split()}
    assert listed == {path.stem for path in (ASSETS / "steps").iterdir()}


def test_roles_of_the_contract() -> None:
    """The cluster's configuration names these and `updated`; a running cluster keeps the names it was created with."""
    roles = {role.name for role in (ASSETS / "roles").iterdir()}
    assert roles == {"head-configured", "compute-start", "compute-configured", "login-configured"}

"""Every script can be started, and the parts fit together."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest

ASSETS = Path(__file__).parents[2] / "cluster_assets"
SCRIPTS = sorted([*ASSETS.rglob("*.sh"), *ASSETS.rglob("*.sbatch")])


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: str(script.relative_to(ASSETS)))
def test_executable_with_unix_line_ends(script: Path) -> None:
    assert b"\r" not in script.read_bytes()
    if script.read_text().startswith("#!"):
        assert script.stat().st_mode & stat.S_IXUSR


def test_variables_exist_in_the_bash_of_every_system() -> None:
    """RHEL 8 and Rocky 8 have bash 4.4, where these of bash 5 are unset and end a script with set -u."""
    for script in SCRIPTS:
        assert not re.search(r"\b(EPOCHSECONDS|EPOCHREALTIME|SRANDOM)\b", script.read_text()), script


def test_roles_of_the_contract_list_all_steps() -> None:
    """The cluster's configuration names the roles and `updated`; a running cluster keeps those it was created with."""
    roles = {role.name: role.read_text().split() for role in (ASSETS / "roles").iterdir()}
    assert roles.keys() == {"head-configured", "compute-start", "compute-configured", "login-configured"}
    assert {step for steps in roles.values() for step in steps} == {path.stem for path in (ASSETS / "steps").iterdir()}

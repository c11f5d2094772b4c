"""One laboratory for all tests of this folder; another for what ends it. Where this machine cannot have one, they fail
with the reason.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from local.slurm import Laboratory, Timeouts, Unavailable, bootstrap, host, make
from local.slurm.plan import Plan
from settings import load

ROOT = Path(__file__).resolve().parents[2]
INSTALL = ROOT / "scripts" / "install-lab-packages.sh"
ENVIRONMENT = ROOT / "environments" / "local.yaml"
# Exit codes of INSTALL: not possible here, needs root.
CANNOT = (os.EX_UNAVAILABLE, os.EX_NOPERM)


@pytest.fixture(scope="session")
def lab_machine() -> None:
    """What a laboratory needs is installed here, or the test fails with the reason. Its users get the marker `lab`."""
    result = subprocess.run([str(INSTALL)], capture_output=True, text=True, check=False)
    if result.returncode in CANNOT:
        pytest.fail(f"no laboratory here: {result.stderr.strip()}")
    assert result.returncode == 0, result.stderr
    try:
        host.check()
    except Unavailable as reason:
        pytest.fail(f"no laboratory here: {reason}")


def plan_of(nodes: int) -> Plan:
    """A plan from the shipped local environment."""
    return make(
        load(ENVIRONMENT), nodes=nodes, powered_down=True, timeouts=Timeouts(slurmd_s=20, message_s=20, kill_wait_s=2)
    )


def start(laboratory: Laboratory, plan: Plan, prepare: Callable[[], None] | None = None) -> None:
    """Start a laboratory, by default with Pyxis enabled; fail the test if the nodes' packages are unreachable."""
    try:
        laboratory.up(plan, before_slurmd=prepare or (lambda: bootstrap.pyxis(laboratory)))
    except Unavailable as reason:
        pytest.fail(f"no laboratory here: {reason}")


@contextmanager
def running(folder: Path, plan: Plan, prepare: Callable[[Laboratory], None] = bootstrap.pyxis) -> Iterator[Laboratory]:
    """A laboratory in a folder, by default with Pyxis enabled; ended afterwards."""
    laboratory = Laboratory(folder)
    try:
        start(laboratory, plan, lambda: prepare(laboratory))
        yield laboratory
    finally:
        laboratory.down()


@pytest.fixture(scope="session")
def lab(lab_machine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:  # noqa: ARG001 -- a fixture that asks for another
    """A laboratory of four P5 nodes with Pyxis on, shared by the tests: each works in folders and jobs of its own."""
    with running(tmp_path_factory.mktemp("lab") / "shared", plan_of(4)) as laboratory:
        laboratory.run(["chmod", "1777", "/fsx"], user="root")
        yield laboratory


@pytest.fixture
def own_lab(lab_machine: None, tmp_path: Path) -> Iterator[Laboratory]:  # noqa: ARG001 -- a fixture that asks for another
    """A laboratory that the test starts; stopped after the test."""
    laboratory = Laboratory(tmp_path / "own")
    yield laboratory
    laboratory.down()

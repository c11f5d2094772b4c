"""One world with a deployed cluster for the tests that run the real command; its laboratory is the cluster's Slurm."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from local.emulator import launch
from local.slurm import Laboratory
from local.slurm.remote import LABORATORIES
from local.steering import Steer
from settings import load
from tests.e2e.conftest import ROOT, free_ports, users_environment
from tests.slurm.conftest import lab_machine

__all__ = ["lab_machine"]
WITH_WORLD = "test_on_the_laboratory"
LIMIT_S = 900


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs the world is marked; under pytest-xdist it stays in one process, which owns it."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and item.path.stem == WITH_WORLD:
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.xdist_group("validation"))


@dataclass
class Deployed:
    """The local environment in a world of its own."""

    file: Path
    state: Path
    home: Path

    def run(self, *line: str) -> subprocess.CompletedProcess[str]:
        """`trainyard LINE`, as a user runs it."""
        return subprocess.run(
            [sys.executable, "-m", "cli", *line],
            cwd=ROOT,
            env=users_environment(self.home),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    def validate(self, *options: str) -> tuple[int, dict[str, Any], str]:
        """Exit status, report and stderr of the validation; an empty report where there is none."""
        done = self.run("validate", str(self.file), "--state", str(self.state), "--format", "json", *options)
        return done.returncode, json.loads(done.stdout) if done.stdout.strip() else {}, done.stderr

    @property
    def laboratory(self) -> Laboratory:
        """The cluster's Slurm, once a validation has started it."""
        environment = load(self.file)
        return Laboratory(self.state / LABORATORIES / f"{environment.account}-{environment.cluster_name}")

    @property
    def steer(self) -> Steer:
        world = launch.find(self.state)
        assert world is not None
        return Steer(world)


@pytest.fixture(scope="module")
def deployed(lab_machine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:  # noqa: ARG001 -- a fixture that asks for another
    folder = tmp_path_factory.mktemp("validation")
    local = Deployed(folder / "local.yaml", folder / "state", folder / "home")
    shutil.copy(ROOT / "environments" / "local.yaml", local.file)
    try:
        line = ("up", str(local.file), "--state", str(local.state), "--port", str(free_ports()), "--no-hello")
        done = local.run(*line)
        assert done.returncode == 0, done.stdout + done.stderr
        yield local
    finally:
        launch.stop(local.state)

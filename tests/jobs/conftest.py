"""The jobs on a real Slurm after our bootstrap: Jakarta's environment, each of its seven models on one node."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from local.slurm import Laboratory, Timeouts, bootstrap, make, namespaces
from settings import Environment, load
from tests.slurm.conftest import lab_machine, running
from trainyard.cluster_config.rendering import MAIL

ROOT = Path(__file__).resolve().parents[2]
JOBS = ROOT / "cluster_assets" / "jobs"
TRAINING = ROOT / "cluster_assets" / "training"
INSTALL_TORCH = ROOT / "scripts" / "install-test-torch.sh"
TORCH = ROOT / ".trainyard" / "torch-3.11"
# Where PyTorch is on the nodes.
NODE_TORCH = "/opt/torch"
__all__ = ["lab_machine"]
# Jobs that take a part of one node.
SHARING = ("data-prepare.sbatch", "notebook.sbatch", "tensorboard.sbatch", "train-small.sbatch")


def load_module(path: Path) -> ModuleType:
    """A program that is not on Python's path, as a module."""
    spec = importlib.util.spec_from_file_location(f"trainyard_{path.stem}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def torch_folder() -> Path:
    """PyTorch for the nodes' Python; the tests fail, with the reason, where no package index has it."""
    done = subprocess.run([str(INSTALL_TORCH), str(TORCH)], capture_output=True, text=True, check=False)
    if done.returncode == os.EX_UNAVAILABLE:
        pytest.fail(f"no PyTorch here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return TORCH


def scaled_down() -> Environment:
    """Jakarta with a node for each model."""
    jakarta = load(ROOT / "environments" / "jakarta-80xp5e.yaml")
    models = tuple(model.model_copy(update={"nodes": 1}) for model in jakarta.models)
    return jakarta.model_copy(update={"models": models})


@pytest.fixture(scope="session")
def lab(
    lab_machine: None,  # noqa: ARG001 -- a fixture that asks for another
    torch_folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Laboratory]:
    """Seven P5e nodes."""
    plan = make(
        scaled_down(),
        nodes=7,
        binds={NODE_TORCH: str(torch_folder)},
        timeouts=Timeouts(slurmd_s=20, message_s=20, kill_wait_s=2),
        slurm=MAIL,
    )
    with running(tmp_path_factory.mktemp("jobs") / "lab", plan, bootstrap.all_nodes) as laboratory:
        yield laboratory


@pytest.fixture(scope="session")
def jobs(lab: Laboratory) -> str:
    """The jobs' folder on the nodes: where the bootstrap installed them for users."""
    return f"{lab.plan.settings()['folders']['scripts']}/current/jobs"  # type: ignore[index]


@pytest.fixture
def revive(lab: Laboratory) -> Iterator[None]:
    """Nodes that the test killed come back afterwards."""
    yield
    running = namespaces.nodes(lab.state)
    for node in lab.plan.compute:
        if node.name not in running:
            bootstrap.start(lab, node.name)

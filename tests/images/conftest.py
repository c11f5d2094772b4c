"""Imports on a real Slurm, from a real registry, to squashfs files; Enroot is a stand-in (local/slurm/README.md)."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from local.slurm import Laboratory, bootstrap, make
from settings import load
from tests.slurm.conftest import ENVIRONMENT, ROOT, lab_machine, running

__all__ = ["lab_machine"]
# The checkout's assets on every node.
ASSETS = "/opt/assets"
IMAGES = "/shared/containers/images"
NODE = "gpu-dy-p5-1"
SETTINGS = "/opt/trainyard/settings.json"


def prepare_node(laboratory: Laboratory, node: str, *steps: str) -> None:
    """Write the settings and run bootstrap steps on a node."""
    laboratory.write(SETTINGS, json.dumps(laboratory.plan.settings()), node=node, user="root")
    for step in steps:
        laboratory.run(["bash", f"{ASSETS}/steps/{step}.sh"], node=node, user="root")


@pytest.fixture(scope="session")
def lab(lab_machine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:  # noqa: ARG001 -- a fixture that asks for another
    """A head node, two P5 nodes and one without GPUs, with the steps that imports need; each test has its own names."""
    binds = {ASSETS: str(ROOT / "cluster_assets")}
    plan = make(load(ENVIRONMENT), counts={"gpu/p5": 2, "cpu/c7i": 1}, binds=binds)

    def prepare(laboratory: Laboratory) -> None:
        bootstrap.pyxis(laboratory)
        prepare_node(laboratory, "head", "folders", "environment", "enroot")
        for node in laboratory.plan.compute:
            prepare_node(laboratory, node.name, "environment", "enroot")

    with running(tmp_path_factory.mktemp("images") / "lab", plan, prepare) as laboratory:
        yield laboratory


@dataclass
class Importer:
    """The scripts as a user calls them, on one node or another, and what they leave."""

    lab: Laboratory
    name: str

    def line(self, image: str, *options: str) -> list[str]:
        return ["bash", f"{ASSETS}/images/import-container.sh", image, self.name, *options]

    def start(
        self, image: str, *options: str, node: str = NODE, user: str = "", env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        words = self.line(image, "--local", *options)
        line = self.lab.line(words, node=node, user=user, env={"IMPORT_FOLDER": IMAGES, **(env or {})})
        return subprocess.Popen(
            line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd="/"
        )

    def run(
        self, image: str, *options: str, node: str = NODE, user: str = "", env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run it to its end; stdout has both streams."""
        process = self.start(image, *options, node=node, user=user, env=env)
        out, _ = process.communicate(timeout=240)
        return subprocess.CompletedProcess(process.args, process.returncode, out)

    @property
    def image(self) -> Path:
        return self.lab.path(f"{IMAGES}/{self.name}.sqsh")

    @property
    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.lab.path(f"{IMAGES}/{self.name}.json").read_text())
        return found

    def leftovers(self, node: str = NODE) -> list[str]:
        """Temporary files in the images folder and on the node's scratch."""
        shared = [path.name for path in self.lab.path(IMAGES).glob(f".{self.name}.import.*")]
        scratch = [path.name for path in self.lab.path("/scratch/enroot/tmp", node=node).iterdir()]
        return shared + scratch

    def content(self, path: str) -> str:
        return self.lab.output(["unsquashfs", "-cat", f"{IMAGES}/{self.name}.sqsh", path])


_numbers = itertools.count()


@pytest.fixture
def importer(lab: Laboratory, request: pytest.FixtureRequest) -> Importer:
    """An import under a name that no other test has."""
    return Importer(lab, f"{request.node.originalname.removeprefix('test_')[:60].replace('_', '-')}-{next(_numbers)}")


def replaced(lab: Laboratory, command: str, script: str, node: str = NODE) -> dict[str, str]:
    """Put a script before a node's real command. Returns the environment with it."""
    folder = f"/tmp/replaced-{command}"
    lab.run(["rm", "-rf", folder], node=node)
    lab.write(f"{folder}/{command}", f"#!/bin/bash\n{script}\n", node=node, mode=0o755)
    return {"PATH": f"{folder}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}

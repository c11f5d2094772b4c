"""`environments/local.yaml` with more GPU nodes and a database, which `trainyard up` deploys to an own emulator."""

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from local.emulator import launch
from local.slurm.remote import NODES_EACH
from tests.e2e.conftest import Local, call_api, client_of, free_ports
from tests.ops.review.edits import ENVIRONMENTS, GPU_MAX, slurm

GPU_NODES = 8
"""Enough to drain two that a job finds bad: a quarter."""
SHIPPED_GPU_NODES = 2
DEPLOYED = slurm("accounting: true")
"""An edit of the shipped file."""


@dataclass
class Deployed:
    """The deployment. Tests that share it revert their changes."""

    local: Local
    emulator: launch.Emulator

    def client(self, service: str) -> Any:  # noqa: ANN401 - a boto3 client of any service
        return client_of(self.emulator, service)

    def api(self, method: str, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
        """Status and answer of the ParallelCluster API for the cluster."""
        return call_api(self.emulator, method, f"/local{path}", body)

    def configuration(self) -> dict[str, Any]:
        """The configuration that the cluster has."""
        address = self.api("GET", "")[1]["clusterConfiguration"]["url"]
        with urllib.request.urlopen(address, timeout=300) as answer:  # noqa: S310 - loopback
            found: dict[str, Any] = json.loads(answer.read())
        return found


@contextmanager
def deploy(folder: Path) -> Iterator[Deployed]:
    """Deploy below `folder`; the emulator is stopped at the end."""
    file = folder / "local.yaml"
    file.write_text((ENVIRONMENTS / "local.yaml").read_text())
    local = Local(file, folder / "state", folder / "home", free_ports())
    local.edit(GPU_MAX, rf"max: {GPU_NODES}\1")
    local.edit(*DEPLOYED)
    try:
        done = replace(local, prefix=("env", f"{NODES_EACH}={GPU_NODES}")).run("up", "--no-hello")
        assert done.returncode == 0, done.stdout + local.logs()
        emulator = launch.find(local.state)
        assert emulator is not None
        yield Deployed(local, emulator)
    finally:
        launch.stop(local.state)

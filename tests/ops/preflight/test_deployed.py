"""The command against an environment that stands in the emulated AWS: nothing counts twice, and the API is asked."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from local.emulator import launch
from local.steering import Steer
from tests.e2e.conftest import free_ports
from tests.ops.preflight.trial import ROOT, Trial, user
from trainyard.pipeline.actions import ASSUME, PREFLIGHT

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    """environments/local.yaml, deployed."""
    folder = tmp_path_factory.mktemp("deployed")
    file = folder / "local.yaml"
    text = (ROOT / "environments" / "local.yaml").read_text("utf-8")
    file.write_text(text, "utf-8")
    state, port = folder / "state", free_ports()
    base = [sys.executable, "-m", "cli"]
    options = [str(file), "--state", str(state)]
    kept = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    try:
        subprocess.run(
            [*base, "up", *options, "--port", str(port), "--no-hello"],
            cwd=ROOT,
            env=kept,
            check=True,
            timeout=600,
            capture_output=True,
        )
        world = launch.find(state)
        assert world is not None
        yield Trial(world, file)
    finally:
        subprocess.run([*base, "down", *options, "--force"], cwd=ROOT, env=kept, check=False, timeout=120)


def test_what_stands_is_not_counted_twice_and_the_api_is_asked(deployed: Trial) -> None:
    own = {"ec2/L-417A185B": 384, "ec2/L-0263D0A3": 1, "vpc/L-F678F1CE": 2, "fsx/L-8F1B9C74": 1200}
    deployed.seed(quotas=[{"quota": quota, "value": value} for quota, value in own.items()])
    Steer(deployed.world).nodes("local", "gpu", "p5", 2, "p5.48xlarge")
    asked = deployed.ask()
    assert asked.of("fault", "unknown", "warning") == []
    [dry] = [line for line in asked.lines if line["subject"] == "dry run: update local"]
    assert dry["found"] == "no changes: the cluster is as the file describes it"


@pytest.mark.parametrize(
    ("edit", "status", "verdict", "said"),
    [
        (("max: 2", "max: 3"), 1, "ok", "it would succeed"),
        (("type: m7i.2xlarge", "type: m7i.4xlarge"), 0, "warning", "HeadNode.InstanceType"),
    ],
    ids=["more nodes, for which the quota is too small", "another head node"],
)
def test_changes_are_run_dry(deployed: Trial, edit: tuple[str, str], status: int, verdict: str, said: str) -> None:
    text = deployed.file.read_text("utf-8")
    deployed.file.write_text(text.replace(*edit), "utf-8")
    try:
        asked = deployed.ask()
    finally:
        deployed.file.write_text(text, "utf-8")
    [dry] = [line for line in asked.lines if line["subject"] == "dry run: update local"]
    assert (dry["verdict"], asked.status) == (verdict, status)
    assert said in dry["found"]


def test_the_api_is_asked_as_a_role_that_may_be_assumed(deployed: Trial) -> None:
    [unknown] = deployed.ask(**user(deployed, list(PREFLIGHT))).of("unknown")
    assert unknown == "cluster: dry run of local"
    assert deployed.ask(**user(deployed, [*PREFLIGHT, ASSUME])).of("unknown") == []

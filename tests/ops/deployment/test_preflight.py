"""The command with a deployed environment: nothing counts twice, and the deployed API answers."""

from __future__ import annotations

import pytest

from local.control import Control
from tests.ops.deployment.deployed import GPU_NODES, Deployed
from tests.ops.preflight.emulated import Answer, Emulated
from trainyard.pipeline.actions import ASSUME, PREFLIGHT

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def deployed(deployment: Deployed) -> Emulated:
    return Emulated(deployment.emulator, deployment.local.file)


def dry_run(answer: Answer) -> dict[str, str]:
    [result] = [result for result in answer.results if result["subject"] == "dry run: update local"]
    return result


def test_deployed_resources_are_not_counted_twice(deployed: Emulated) -> None:
    deployed.quotas(
        {"ec2/L-417A185B": 192 * GPU_NODES, "ec2/L-0263D0A3": 1, "vpc/L-F678F1CE": 2, "fsx/L-8F1B9C74": 1200}
    )
    Control(deployed.emulator).nodes("local", "gpu", "p5", GPU_NODES, "p5.48xlarge")
    answer = deployed.ask()
    assert answer.of("fault", "unknown", "warning") == []
    assert dry_run(answer)["found"] == "no changes: the cluster is as the file describes it"


@pytest.mark.parametrize(
    ("edit", "status", "verdict", "found"),
    [
        ((f"max: {GPU_NODES}", f"max: {GPU_NODES + 1}"), 1, "ok", "it would succeed"),
        (("type: m7i.2xlarge", "type: m7i.4xlarge"), 0, "warning", "HeadNode.InstanceType"),
    ],
    ids=["more nodes, for which the quota is too small", "another head node"],
)
def test_dry_run_of_a_change(deployed: Emulated, edit: tuple[str, str], status: int, verdict: str, found: str) -> None:
    answer = deployed.ask_with(deployed.file.read_text("utf-8").replace(*edit))
    result = dry_run(answer)
    assert (result["verdict"], answer.status) == (verdict, status)
    assert found in result["found"]


def test_api_needs_a_role_that_can_be_assumed(deployed: Emulated) -> None:
    assert deployed.ask(**deployed.user(*PREFLIGHT)).of("unknown") == ["cluster: dry run of local"]
    assert deployed.ask(**deployed.user(*PREFLIGHT, ASSUME)).of("unknown") == []

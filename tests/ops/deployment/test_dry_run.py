"""The verdicts against the real ParallelCluster API: a dry run of each edit of `local`, on a cluster of `make up`.

With the fleet running and then stopped. Edits that name what the emulated AWS does not have are left out: the API's
validators would refuse them before its update policies are asked.
"""

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from ops import pcluster_subprocess
from tests.cluster_config.references import references
from tests.ops.deployment.deployed import DEPLOYED, GPU_NODES, SHIPPED_GPU_NODES, Deployed
from tests.ops.review.edits import CLUSTER, load
from trainyard.cluster_config import render

pytestmark = pytest.mark.e2e

FLEET_LIMIT_S = 300
EDITS = {name: edit for name, edit in CLUSTER.items() if edit.emulated and edit.file == "local" and not edit.before}


@pytest.fixture(scope="module")
def deployed(deployment: Deployed) -> Iterator[Deployed]:
    yield deployment
    request_fleet(deployment, "START_REQUESTED", "RUNNING")


def accepts(deployed: Deployed, configuration: Mapping[str, Any]) -> bool | str:
    """The dry run of an update: 412 accepts; 400 refuses, or finds no changes; 500 where a policy fails.

    Any other answer, such as for an invalid configuration, is returned in words.
    """
    body = {"clusterConfiguration": json.dumps(configuration)}
    status, answer = deployed.api("PUT", f"?dryrun=true&region={deployed.emulator.region}", body)
    if status == 412 or "No changes found" in str(answer.get("message")):
        return True
    judged = status == 500 or (status == 400 and "updateValidationErrors" in answer)
    return False if judged else f"HTTP {status}: {answer}"


@pytest.fixture(scope="module")
def steps(deployed: Deployed, tmp_path_factory: pytest.TempPathFactory) -> dict[str, pcluster_subprocess.Step]:
    """Each edit as a step from the configuration that the cluster has, with the ids of the emulator."""
    folder = tmp_path_factory.mktemp("edits")
    base, present = load("local", (DEPLOYED,), folder), deployed.configuration()
    real = ids(render(base, references(base)), present)
    owner = [tag for tag in present["Tags"] if tag["Key"] == "trainyard:owner"]
    found: dict[str, pcluster_subprocess.Step] = {}
    for name, edit in EDITS.items():
        new = load(edit.file, (DEPLOYED, *edit.replacements), folder)
        text = json.dumps(render(new, references(new)))
        for example in sorted(real, key=len, reverse=True):
            text = text.replace(example, real[example])
        wanted = json.loads(text)
        wanted["Tags"] += owner
        wanted["Scheduling"]["SlurmQueues"][0]["ComputeResources"][0]["MaxCount"] += GPU_NODES - SHIPPED_GPU_NODES
        found[name] = ("local", present, wanted)
    return found


@pytest.fixture(scope="module")
def answers(steps: dict[str, pcluster_subprocess.Step]) -> dict[str, Any]:
    """Ours, for both states of the fleet."""
    return pcluster_subprocess.compare_configurations(steps)


def ids(example: Any, real: Any) -> dict[str, str]:  # noqa: ANN401 - JSON
    """What the emulator has for each id of the rendered example."""
    if isinstance(example, dict):
        return {old: new for key, item in example.items() for old, new in ids(item, real[key]).items()}
    if isinstance(example, list):
        return {old: new for item, its in zip(example, real, strict=False) for old, new in ids(item, its).items()}
    return {example: real} if isinstance(example, str) and example != real else {}


@pytest.mark.parametrize("fleet", ["running", "stopped"])
def test_the_dry_run_agrees_on_every_edit(
    fleet: str, deployed: Deployed, steps: dict[str, pcluster_subprocess.Step], answers: dict[str, Any]
) -> None:
    if fleet == "stopped":
        request_fleet(deployed, "STOP_REQUESTED", "STOPPED")
    accepted = {name: accepts(deployed, new) for name, (_, _, new) in steps.items()}
    assert accepted == {name: answer["accepted"][fleet] for name, answer in answers.items()}
    assert len(accepted) >= 25


def request_fleet(deployed: Deployed, request: str, wanted: str) -> None:
    path = f"/computefleet?region={deployed.emulator.region}"
    status, answer = deployed.api("PATCH", path, {"status": request})
    assert status == 200, answer
    deadline = time.monotonic() + FLEET_LIMIT_S
    while (state := deployed.api("GET", path)[1].get("status")) != wanted:
        assert time.monotonic() < deadline, state
        time.sleep(1)

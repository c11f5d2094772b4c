"""What edits of the cluster come to, by ParallelCluster's own policies, and that its own check of an update agrees."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ops import pcluster_subprocess
from ops.review.cluster import Cluster, Need, Outcome, keys_of
from ops.review.verdict import Level, Verdict, meaning
from tests.cluster_config.references import references
from tests.ops.review.edits import CLUSTER
from trainyard.cluster_config import render

# One process of ParallelCluster for all edits: its imports are slow.
pytestmark = pytest.mark.xdist_group("review-cluster")


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """ParallelCluster's answer to each edit."""
    folder = tmp_path_factory.mktemp("edits")
    steps = {}
    for name, edit in CLUSTER.items():
        old, new = edit.old(folder), edit.new(folder)
        steps[name] = (old.cluster_name, render(old, references(old)), render(new, references(new)))
    return pcluster_subprocess.compare_configurations(steps)


def verdict_of(answer: Mapping[str, Any], updates: Mapping[str, str] | None = None) -> Verdict:
    cluster = Cluster(
        "local",
        Outcome.UPDATED,
        keys=keys_of(answer),
        strategy=answer["strategy"],
        accepted=answer["accepted"],
        updates=updates,
    )
    return Verdict("local", "before", cluster, (), (), ())


@pytest.mark.parametrize("name", CLUSTER)
def test_verdict_agrees_with_the_packages_own_check(name: str, answers: dict[str, dict[str, Any]]) -> None:
    """`ConfigPatch.check` judges the whole update as the API does; the verdict judges key by key."""
    edit, verdict = CLUSTER[name], verdict_of(answers[name])
    assert verdict.level is edit.level
    keys, needs = verdict.cluster.keys, set(edit.needs.values())
    assert keys, "the edit changes nothing"
    for key in keys:
        wanted = next((need for suffix, need in edit.needs.items() if key.path.endswith(suffix)), Need.NOTHING)
        assert (key.path, key.needs) == (key.path, wanted)
    assert {key.needs for key in keys} >= needs
    by_key = all(key.needs is Need.NOTHING or verdict.cluster.strategy in key.strategies for key in keys)
    assert verdict.cluster.accepted == {"running": by_key, "stopped": needs <= {Need.FLEET}}
    assert by_key or edit.level is not Level.SAFE


def test_what_a_key_means_names_the_strategy_and_the_permission(answers: dict[str, dict[str, Any]]) -> None:
    def said(name: str, suffix: str, **updates: str) -> str:
        cluster = verdict_of(answers[name], updates).cluster
        return next(meaning(key, cluster) for key in cluster.keys if key.path.endswith(suffix))

    assert "QueueUpdateStrategy TERMINATE; refused while" in said("fewer nodes", "MaxCount")
    assert "stopped and started again" in said("fewer nodes", "MaxCount", StopFleet="when-needed")
    assert "ended at once" in said("fewer nodes, by a strategy that ends them", "MaxCount")
    assert "drained, which QueueUpdateStrategy DRAIN does" in said("spot instances", "CapacityType")
    assert "QueueUpdateStrategy" not in said("other instances in a queue", "InstanceType")
    assert "refused (cluster.updates.replace is never)" in said("another operating system", "Os")
    assert "created again" in said("another operating system", "Os", Replace="when-needed")
    assert "HTTP 500" in said("Lustre mounted elsewhere", "MountDir")
    assert "login nodes stopped" in said("other login nodes", "InstanceType")
    assert "not counted" in said("another strategy alone", "QueueUpdateStrategy")


def test_the_policies_are_those_of_the_installed_package(answers: dict[str, dict[str, Any]]) -> None:
    """No copy of ours: the names are read from the package, and no file of ours lists them."""
    names = {change["policy"] for answer in answers.values() for change in answer["changes"]}
    assert {"UNSUPPORTED", "SUPPORTED", "COMPUTE_FLEET_STOP", "QUEUE_UPDATE_STRATEGY"} <= names
    root = Path(__file__).parents[3]
    ours = [*root.glob("ops/review/*.py"), root / "parallelcluster" / "policies.py"]
    assert [file.name for file in ours if '"UNSUPPORTED"' in file.read_text("utf-8")] == []

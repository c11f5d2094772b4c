"""Which prefixes expire."""

from __future__ import annotations

from typing import Any

from settings.model import Environment
from tests.constructs.stacks_of import environment
from trainyard.lifecycle import expiring

USUAL = {("checkpoints/", "checkpoints"), ("logs/", "logs"), ("tmp/", "temporary")}


def found(settings: Environment) -> set[tuple[str, str]]:
    return {(item.prefix, item.kind) for item in expiring(settings, "checkpoints")}


def with_association(path: str, prefix: str, **parts: object) -> Environment:
    association = {"path": path, "bucket": "checkpoints", "prefix": prefix}
    lustre = {"name": "fs", "mount": "/fsx", "capacity_gib": 1200, "associations": [association]}
    return environment(storage={"lustre": [lustre]}, **parts)


def model(name: str) -> dict[str, Any]:
    folders = {part: f"/fsx/{name}/{part}" for part in ("data", "checkpoints", "outputs", "logs", "tensorboard")}
    return {"name": name, "queue": "cpu", "nodes": 1, "folders": folders}


def test_usual_folders_at_the_root_of_a_bucket() -> None:
    assert found(environment()) == USUAL


def test_a_whole_file_system_under_a_prefix() -> None:
    assert found(with_association("/", "training/")) == USUAL | {(f"training/{prefix}", kind) for prefix, kind in USUAL}


def test_a_file_system_of_logs_expires_as_one() -> None:
    assert found(with_association("/", "logs/")) == USUAL


def test_a_folder_of_results_expires_in_no_part() -> None:
    assert found(with_association("/results", "results/")) == USUAL


def test_folders_of_models_where_an_association_ties_them_to_the_bucket() -> None:
    models = [model("first"), model("second")]
    assert found(with_association("/first", "projects/first/", models=models)) == USUAL | {
        ("projects/first/checkpoints/", "checkpoints"),
        ("projects/first/logs/", "logs"),
        ("projects/first/tensorboard/", "logs"),
    }


def test_a_model_folder_that_is_an_association_itself() -> None:
    settings = with_association("/first/checkpoints", "weights-of-first/", models=[model("first")])
    assert ("weights-of-first/", "checkpoints") in found(settings)


def test_other_bucket_is_not_concerned() -> None:
    settings = with_association("/", "training/")
    assert {(item.prefix, item.kind) for item in expiring(settings, "data")} == USUAL

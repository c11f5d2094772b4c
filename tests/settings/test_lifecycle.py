"""Which prefixes expire."""

from __future__ import annotations

from typing import Any

import pytest

from settings.lifecycle import expiring
from settings.model import Environment
from tests.constructs.stacks_of import environment

USUAL = {("checkpoints/", "checkpoints"), ("logs/", "logs"), ("tmp/", "temporary")}


def with_association(path: str, prefix: str, bucket: str = "checkpoints", **parts: object) -> Environment:
    association = {"path": path, "bucket": bucket, "prefix": prefix}
    lustre = {"name": "fs", "mount": "/fsx", "capacity_gib": 1200, "associations": [association]}
    return environment(storage={"lustre": [lustre]}, **parts)


def model(name: str) -> dict[str, Any]:
    folders = {part: f"/fsx/{name}/{part}" for part in ("data", "checkpoints", "outputs", "logs", "tensorboard")}
    return {"name": name, "queue": "cpu", "nodes": 1, "folders": folders}


@pytest.mark.parametrize(
    ("path", "prefix", "more"),
    [
        # A whole file system under a prefix.
        ("/", "training/", {(f"training/{prefix}", kind) for prefix, kind in USUAL}),
        # A file system of logs expires as one; a folder of results in no part.
        ("/", "logs/", set()),
        ("/results", "results/", set()),
        # The folders of models where an association links them to the bucket.
        (
            "/first",
            "projects/first/",
            {
                ("projects/first/checkpoints/", "checkpoints"),
                ("projects/first/logs/", "logs"),
                ("projects/first/tensorboard/", "logs"),
            },
        ),
        ("/first/checkpoints", "weights-of-first/", {("weights-of-first/", "checkpoints")}),
    ],
)
def test_expiring_prefixes(path: str, prefix: str, more: set[tuple[str, str]]) -> None:
    models = [model("first"), model("second")] if path.startswith("/first") else []
    settings = with_association(path, prefix, models=models)
    assert {(item.prefix, item.kind) for item in expiring(settings)} == USUAL | more


def test_a_data_set_never_expires_whatever_its_name() -> None:
    settings = with_association("/first/logs", "logs/", bucket="data", models=[model("first")])
    assert {(item.prefix, item.kind) for item in expiring(settings)} == USUAL

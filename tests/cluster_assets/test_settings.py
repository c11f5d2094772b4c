"""settings.json of each shipped environment, against its schema."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from settings import Environment, load
from tests.cluster_config.builder import environment
from trainyard.cluster_settings import cluster_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "cluster_assets/settings.schema.json").read_text())
ENVIRONMENTS = sorted(path for path in (ROOT / "environments").glob("*.yaml"))


def build(environment: Environment, uris: Mapping[str, str] | None = None) -> dict[str, Any]:
    if uris is None:
        uris = {repository.name: f"{repository.name}.uri" for repository in environment.images.repositories}
    return cluster_settings(
        environment,
        repository_uris=uris,
        data_bucket="the-data",
        checkpoints_bucket="the-checkpoints",
        assets_bucket="the-assets",
    )


def test_a_model_of_a_team_names_it() -> None:
    jakarta = load(ROOT / "environments/jakarta-80xp5e.yaml")
    models = (jakarta.models[0].model_copy(update={"team": "nlp"}), *jakarta.models[1:])
    settings = build(jakarta.model_copy(update={"models": models}))
    jsonschema.validate(settings, SCHEMA)
    assert [model.get("team") for model in settings["models"]] == ["nlp", *[None] * 6]


def test_settings_of_the_tests_fit_the_schema(settings: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(settings, SCHEMA)


@pytest.mark.parametrize("path", ENVIRONMENTS, ids=lambda path: path.stem)
def test_shipped_environments_fit_the_schema(path: Path) -> None:
    settings = build(load(path))
    jsonschema.validate(settings, SCHEMA)
    mounts = tuple(f"{mount['path']}/" for mount in settings["mounts"])
    folders = [
        *settings["folders"].values(),
        *(folder for model in settings["models"] for folder in model["folders"].values()),
    ]
    assert folders
    assert all(folder.startswith(mounts) for folder in folders)


@pytest.mark.parametrize(
    ("schedule", "calendar"),
    [
        ("nightly", "*-*-* 01:00:00 UTC"),
        ("02:30", "*-*-* 02:30:00 UTC"),
        ("Sat,Sun 22:00", "Sat,Sun *-*-* 22:00:00 UTC"),
    ],
)
def test_schedule_of_the_check_of_idle_nodes(schedule: str, calendar: str) -> None:
    built = build(environment(validation={"schedule": schedule, "on_failure": "drain"}))
    assert built["validation"] == {"calendar": calendar, "on_failure": "drain"}
    jsonschema.validate(built, SCHEMA)
    if analyze := shutil.which("systemd-analyze"):
        subprocess.run([analyze, "calendar", calendar], check=True, stdout=subprocess.DEVNULL)
    assert "validation" not in build(environment())


def test_three_file_systems_share_the_common_folders_out() -> None:
    folders = build(load(ROOT / "environments/jakarta-80xp5e.yaml"))["folders"]
    assert folders == {
        "data": "/fsx1/datasets",
        "checkpoints": "/fsx2/checkpoints",
        "logs": "/fsx3/logs",
        "results": "/fsx1/results",
        "images": "/fsx1/containers/images",
        "scripts": "/fsx1/scripts",
    }


def test_environment_without_file_systems() -> None:
    settings = build(environment())
    jsonschema.validate(settings, SCHEMA)
    assert settings["folders"] == {} and settings["bases"] == {"lustre": None, "shared": None}


def test_homes_are_no_place_for_shared_folders() -> None:
    openzfs = {"capacity_gib": 64, "volumes": [{"name": "home", "mount": "/home"}]}
    lustre = [{"name": "work", "mount": "/fsx", "capacity_gib": 1200}]
    settings = build(environment(storage={"openzfs": openzfs, "lustre": lustre}))
    assert settings["bases"] == {"lustre": "/fsx", "shared": "/fsx"}
    assert settings["folders"]["scripts"] == "/fsx/scripts"
    assert build(environment(storage={"openzfs": openzfs}))["folders"] == {}


def test_nodes_learn_which_file_systems_they_reach_over_efa() -> None:
    fast = {"name": "fast", "mount": "/fast", "capacity_gib": 4800, "throughput": 1000, "efa": True}
    slow = {"name": "slow", "mount": "/slow", "capacity_gib": 1200}
    settings = build(environment(storage={"lustre": [fast, slow]}))
    jsonschema.validate(settings, SCHEMA)
    assert [mount.get("efa") for mount in settings["mounts"]] == [True, None]


@pytest.mark.parametrize(
    ("text", "asked"), [("a line", 5), ("two\nlines", 17), ("é" * 60_000, 17)], ids=["short", "lines", "long"]
)
def test_loaded_values_are_those_of_jq(text: str, asked: int, tmp_path: Path) -> None:
    """And jq is asked for no value that was loaded."""
    given = {
        "monitoring": {"mode": "managed", "topic_arn": None, "calendar": "*-*-* 03:00"},
        "usage": {"idle_gpus": False, "a=b": 1},
        "mounts": [{"path": "/fsx", "efa": None}, {"path": "/home dir", "efa": True}],
        "models": [],
        "queues": [{"compute": []}, {"compute": ["p5"]}],
        "text": text,
    }
    (tmp_path / "settings.json").write_text(json.dumps(given))
    filters = [".monitoring.mode", ".monitoring.topic_arn", ".monitoring.calendar", ".usage.idle_gpus", ".text"]
    filters += [".mounts[].path", ".mounts[].efa", ".usage", ".models[].name", ".people", ".mounts | length", ".text=1"]
    filters += [".models", ".monitor", ".usage.idle", ".people.schema", ".queues[].compute"]
    script = """
    . "$1/base.sh"; . "$1/settings.sh"; shift; $1
    jq() { echo asked >&2; command jq "$@"; }
    shift; for filter in "$@"; do echo "= $filter"; settings::get "$filter"; done"""
    plain, loaded = (
        subprocess.run(
            ["bash", "-euc", script, "-", str(ROOT / "cluster_assets/lib"), first, *filters],
            env={**os.environ, "TRAINYARD_SETTINGS": str(tmp_path / "settings.json")},
            text=True,
            capture_output=True,
            check=True,
        )
        for first in ("true", "settings::load")
    )
    assert loaded.stdout == plain.stdout
    assert (plain.stderr.count("asked"), loaded.stderr.count("asked")) == (len(filters), asked)

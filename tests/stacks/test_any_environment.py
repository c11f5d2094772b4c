"""Whatever `trainyard check` accepts synthesizes, and CloudFormation takes every template."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st

import settings
from stacks.deployment import compose
from tests.constructs.stacks_of import app_without_bundling
from tests.settings.conftest import GONE, write_edited
from tests.settings.examples import GOOD, NO_MODELS
from tests.stacks.conftest import validated_app

LUSTRE = {"name": "fast", "mount": "/fsx", "capacity_gib": 1200}
NO_STORAGE: dict[str, Any] = {"storage": GONE, **NO_MODELS}
NO_IMAGES: dict[str, Any] = {"images": {"repositories": []}}
LESS: list[dict[str, Any]] = [
    NO_STORAGE,
    NO_IMAGES,
    {"storage.lustre": [], **NO_MODELS},
    {"storage.lustre": [LUSTRE]},
    {"storage.openzfs": GONE},
    {"retention": {"buckets": "delete-with-data", "file_systems": "delete", "images": "delete", "logs": "delete"}},
    {"cluster.login_nodes": {}},
    {"cluster.queues.1": GONE},
]
"""What a file may leave out, and shapes that no example of the rules has."""
EDITS = [*LESS, *GOOD]


def accepted(chosen: list[int]) -> settings.Environment | None:
    """The good environment with these edits, one after the other; None where the check refuses it."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            edits = {key: value for index in chosen for key, value in EDITS[index].items()}
            return settings.load(write_edited(edits, Path(folder)))
        except (settings.Faults, LookupError, TypeError):  # refused, or an edit of what another edit took away
            return None


def templates(environment: settings.Environment) -> dict[str, dict[str, Any]]:
    app = app_without_bundling()
    compose(app, environment)
    return {stack.stack_name: stack.template for stack in app.synth().stacks}


@hypothesis.example([0, 1])
@hypothesis.settings(max_examples=10, deadline=None, derandomize=True, database=None)
@hypothesis.given(st.lists(st.integers(0, len(EDITS) - 1), max_size=4, unique=True))
def test_what_the_check_accepts_synthesizes_and_no_template_is_empty(chosen: list[int]) -> None:
    environment = accepted(chosen)
    hypothesis.assume(environment is not None)
    assert environment is not None
    for name, template in templates(environment).items():
        assert template.get("Resources"), name


def test_the_validation_of_the_cdk_takes_an_environment_without_storage_and_images(tmp_path: Path) -> None:
    app = validated_app(tmp_path / "cdk.out")
    compose(app, settings.load(write_edited(NO_STORAGE | NO_IMAGES, tmp_path)))
    app.synth()

"""Synthesis of edited environments in this process, without bundling."""

import functools
import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk

from ops.review.stacks import Stack, synthesized
from settings import Environment
from settings.pipeline import load as load_pipeline
from stacks.deployment import compose
from stacks.pipeline import compose_promotion
from tests.ops.review.edits import Replacements, load

ROOT = Path(__file__).parents[3]


def _app(folder: Path) -> cdk.App:
    context = json.loads((ROOT / "cdk.json").read_text("utf-8"))["context"] | {"aws:cdk:bundling-stacks": []}
    return cdk.App(outdir=str(folder), context=context, builtin_cloud_formation_validation=False)


def stacks_of(environment: Environment, folder: Path) -> dict[str, Stack]:
    app = _app(folder)
    compose(app, environment)
    app.synth()
    return synthesized(folder)


def pipeline_template(file: Path, folder: Path) -> dict[str, Any]:
    """The template of a pipeline's own stack."""
    app = _app(folder)
    compose_promotion(app, load_pipeline(file), context=file.stem)
    app.synth()
    template: dict[str, Any] = json.loads((folder / "pipeline.template.json").read_text("utf-8"))
    return template


@functools.cache
def edited(name: str, replacements: Replacements, folder: Path) -> dict[str, Stack]:
    """The stacks of a shipped environment with edits; `folder` is the session's."""
    place = folder / f"{name}-{abs(hash(replacements))}"
    place.mkdir()
    return stacks_of(load(name, replacements, place), place / "cdk.out")

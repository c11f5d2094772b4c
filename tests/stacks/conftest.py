"""Each shipped environment, synthesized once with cdk-nag, with the flags of cdk.json."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import cdk_nag
import pytest

import settings
from stacks.deployment import compose

ROOT = Path(__file__).parents[2]
NAMES = sorted(file.stem for file in (ROOT / "environments").glob("*.yaml"))


@dataclass(frozen=True)
class Synthesis:
    """A synthesized environment."""

    environment: settings.Environment
    folder: Path

    @property
    def stacks(self) -> dict[str, dict[str, Any]]:
        """The stacks of the assembly's manifest by construct id."""
        manifest = json.loads((self.folder / "manifest.json").read_text(encoding="utf-8"))
        return {key: item for key, item in manifest["artifacts"].items() if item["type"] == "aws:cloudformation:stack"}

    @property
    def templates(self) -> dict[str, dict[str, Any]]:
        """The templates by construct id of their stack."""
        return {
            file.name.removesuffix(".template.json"): json.loads(file.read_text(encoding="utf-8"))
            for file in sorted(self.folder.glob("*.template.json"))
        }

    def resources(self, stack: str, kind: str) -> dict[str, dict[str, Any]]:
        return {key: item for key, item in self.templates[stack]["Resources"].items() if item["Type"] == kind}


def context() -> dict[str, Any]:
    """The context of cdk.json, which the CDK CLI hands to the app."""
    given: dict[str, Any] = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    return given


def checked_app(folder: Path) -> cdk.App:
    """An app whose synthesis fails on a finding of cdk-nag."""
    app = cdk.App(outdir=str(folder), context=context(), builtin_cloud_formation_validation=False)
    cdk.Validations.of(app).add_plugins(cdk_nag.AwsSolutionsChecks(app))
    return app


@functools.cache
def _validation() -> cdk.CloudFormationValidatePlugin:
    # One for all apps: each starts a WASM engine, 4 s.
    return cdk.CloudFormationValidatePlugin()


def validated_app(folder: Path) -> cdk.App:
    """The same, and on a finding of the CDK's own validation, which tests/conftest.py switches off elsewhere."""
    app = checked_app(folder)
    cdk.Validations.of(app).add_plugins(_validation())
    return app


@functools.cache
def _synthesize(name: str, folder: Path) -> Synthesis:
    environment = settings.load(ROOT / "environments" / f"{name}.yaml")
    app = validated_app(folder)
    compose(app, environment)
    app.synth()
    return Synthesis(environment, folder)


# One process synthesizes an environment, for all tests that look at it.
@pytest.fixture(
    scope="session", params=[pytest.param(name, marks=pytest.mark.xdist_group(f"stacks-{name}")) for name in NAMES]
)
def synthesis(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    """Every environment in turn. Synthesis fails on a cdk-nag finding, so what arrives here has none."""
    return _synthesize(request.param, tmp_path_factory.getbasetemp() / f"cdk.out.{request.param}")


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    """The environment `local`."""
    return _synthesize("local", tmp_path_factory.getbasetemp() / "cdk.out.local")

"""The shipped pipeline, synthesized once with cdk-nag, and access to its template."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import settings.pipeline
from settings.pipeline import Promotion
from stacks.pipeline import compose_promotion
from tests.stacks.conftest import ROOT, validated_app

FILE = ROOT / "environments" / "pipelines" / "promotion.yaml"


@dataclass(frozen=True)
class Synthesis:
    """A synthesized pipeline; resources and statements are those of the pipeline's own stack."""

    promotion: Promotion
    folder: Path

    @property
    def template(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "pipeline.template.json").read_text("utf-8"))
        return found

    def resources(self, kind: str) -> dict[str, dict[str, Any]]:
        return {key: item for key, item in self.template["Resources"].items() if item["Type"] == kind}

    @property
    def stages(self) -> dict[str, list[dict[str, Any]]]:
        """The actions of each stage of the pipeline."""
        [pipeline] = self.resources("AWS::CodePipeline::Pipeline").values()
        return {stage["Name"]: stage["Actions"] for stage in pipeline["Properties"]["Stages"]}

    def action(self, stage: str, name: str) -> dict[str, Any]:
        [found] = [action for action in self.stages[stage] if action["Name"] == name]
        return found

    def project_of(self, stage: str, name: str) -> tuple[str, dict[str, Any]]:
        """Logical id and properties of the CodeBuild project of an action."""
        logical_id = self.action(stage, name)["Configuration"]["ProjectName"]["Ref"]
        return logical_id, self.template["Resources"][logical_id]["Properties"]

    def build_spec(self, stage: str, name: str) -> dict[str, Any]:
        text = self.project_of(stage, name)[1]["Source"]["BuildSpec"]
        found: dict[str, Any] = json.loads(text)
        return found

    def statements(self, role: str) -> Iterator[dict[str, Any]]:
        """The statements of the policies of a role, by its logical id."""
        for policy in self.resources("AWS::IAM::Policy").values():
            if {"Ref": role} in policy["Properties"]["Roles"]:
                yield from policy["Properties"]["PolicyDocument"]["Statement"]

    def stage_templates(self, environment: str) -> dict[str, dict[str, Any]]:
        """The templates of an environment's stage, by construct id of their stack."""
        folder = self.folder / f"assembly-{environment}"
        artifacts = json.loads((folder / "manifest.json").read_text("utf-8"))["artifacts"]
        return {
            item["displayName"].rpartition("/")[2]: json.loads(
                (folder / item["properties"]["templateFile"]).read_text("utf-8")
            )
            for item in artifacts.values()
            if item["type"] == "aws:cloudformation:stack"
        }


def statements_of(template: dict[str, Any], sid: str) -> list[dict[str, Any]]:
    """The statements with a Sid in the policies of a template."""
    policies = [item["Properties"] for item in template["Resources"].values() if item["Type"] == "AWS::IAM::Policy"]
    found = [statement for policy in policies for statement in policy["PolicyDocument"]["Statement"]]
    return [statement for statement in found if statement.get("Sid") == sid]


def synthesize(folder: Path, file: Path) -> Synthesis:
    """Synthesis fails on a finding of cdk-nag or of the CDK's validation, so what comes back has none."""
    promotion = settings.pipeline.load(file)
    app = validated_app(folder)
    compose_promotion(app, promotion, context=file.stem)
    app.synth()
    return Synthesis(promotion, folder)


def edited(folder: Path, edits: Mapping[str, str]) -> Path:
    """The shipped pipeline's file with replacements of text, each of which must match."""
    text = FILE.read_text("utf-8")
    for old, new in edits.items():
        assert old in text, old
        text = text.replace(old, new)
    file = folder / "edited.yaml"
    file.write_text(text, "utf-8")
    return file


@pytest.fixture(scope="session")
def synthesis(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    return synthesize(tmp_path_factory.getbasetemp() / "cdk.out.pipeline", FILE)

"""Order of actions: gates before any deployment, validation after all."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from stacks.deployment import compose
from tests.constructs.test_rules import cfn_lint
from tests.pipeline.conftest import Synthesis
from tests.stacks.conftest import checked_app
from trainyard.pipeline import steps

pytestmark = pytest.mark.xdist_group("pipeline")

ENVIRONMENTS = ["dev", "staging", "prod"]
# CDK Pipelines writes the ARNs of the bootstrap's roles so; a matter of taste.
ARNS_OF_BOOTSTRAP_ROLES = "Prefer using Fn::Sub over Fn::Join with an empty delimiter"
GATES = ("Approve-Disruption", "Approve-Permissions")


def orders(actions: list[dict[str, Any]], *names: str) -> list[int]:
    return [action["RunOrder"] for action in actions if action["Name"] in names]


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_gates_run_before_deployments_and_validation_last(synthesis: Synthesis, name: str) -> None:
    actions = synthesis.stages[name]
    judged = orders(actions, "Preflight", "Diff")
    gates = orders(actions, *GATES, *(f"{gate}-ByVerdict" for gate in GATES))
    deployed = [a["RunOrder"] for a in actions if a["ActionTypeId"]["Provider"] == "CloudFormation"]
    # Two actions for each stack; prod has an accounting database.
    assert (len(judged), len(gates), len(deployed)) == (2, 4, 18 if name == "prod" else 16)
    [validated] = orders(actions, "Validation")
    assert max(judged) < min(gates) <= max(gates) < min(deployed) <= max(deployed) < validated
    assert validated == max(action["RunOrder"] for action in actions)


def test_prod_approval_runs_after_the_gates_and_before_deployments(synthesis: Synthesis) -> None:
    for name in ENVIRONMENTS[:-1]:
        assert orders(synthesis.stages[name], "Approve") == []
    actions = synthesis.stages["prod"]
    [approval] = orders(actions, "Approve")
    assert max(orders(actions, *GATES)) < approval
    assert approval < min(a["RunOrder"] for a in actions if a["ActionTypeId"]["Provider"] == "CloudFormation")


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_deployed_assembly_is_the_reviewed_one(synthesis: Synthesis, name: str) -> None:
    [assembly] = synthesis.action("Build", "Synth")["OutputArtifacts"]
    diff = synthesis.action(name, "Diff")
    assert assembly in diff["InputArtifacts"]
    [command] = [c for c in synthesis.build_spec(name, "Diff")["phases"]["build"]["commands"] if "trainyard gate" in c]
    assert f"--assembly cdk.out/assembly-{name} " in command
    for action in synthesis.stages[name]:
        if action["Name"].endswith(".Prepare"):
            assert action["InputArtifacts"] == [assembly]
            assert action["Configuration"]["TemplatePath"].startswith(f"{assembly['Name']}::assembly-{name}/")


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_stage_equals_an_app_without_a_pipeline(
    synthesis: Synthesis, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp() / f"cdk.out.plain.{name}"
    [target] = [target for target in synthesis.promotion.targets if target.environment.name == name]
    app = checked_app(folder)
    compose(app, target.environment)
    app.synth()
    plain = {
        file.name.removesuffix(".template.json"): json.loads(file.read_text("utf-8"))
        for file in folder.glob("*.template.json")
    }
    staged = synthesis.stage_templates(name)
    assert set(staged) == {*plain, "promotion"}
    for stack, template in plain.items():
        assert without_paths(staged[stack]) == without_paths(template), stack
        assert json.dumps(staged[stack]).count(OWNER) == json.dumps(template).count(OWNER)
    names = {
        action["Configuration"]["StackName"] for action in synthesis.stages[name] if action["Name"].endswith(".Prepare")
    }
    assert names == {f"{name}-{stack}" for stack in staged}


OWNER = "aws-cdk:cr-owned:"


def without_paths(template: dict[str, Any]) -> dict[str, Any]:
    """A template without what has a construct's path in it, and so the stage's name: the CDK's own metadata, and the
    tag with which a bucket deployment marks its bucket, which changes in place.
    """
    template = json.loads(re.sub(rf"{OWNER}[0-9a-f]{{8}}", OWNER, json.dumps(template)))
    resources = {
        key: {name: part for name, part in item.items() if name != "Metadata"}
        for key, item in template["Resources"].items()
    }
    return {**template, "Resources": resources}


@pytest.mark.parametrize("name", ["pipeline", *ENVIRONMENTS])
def test_cfn_lint(synthesis: Synthesis, name: str) -> None:
    template = synthesis.template if name == "pipeline" else synthesis.stage_templates(name)["promotion"]
    found = cfn_lint(template, synthesis.promotion.pipeline.region, ["W3005"])
    assert [f"{m.rule.id} {m.path}: {m.message}" for m in found if m.message != ARNS_OF_BOOTSTRAP_ROLES] == []


def test_stack_is_protected_and_the_program_that_publishes_assets_is_pinned(synthesis: Synthesis) -> None:
    manifest = json.loads((synthesis.folder / "manifest.json").read_text("utf-8"))["artifacts"]["pipeline"]
    assert manifest["properties"]["terminationProtection"] is True
    assert manifest["environment"] == "aws://555566667777/us-west-2"
    [assets] = synthesis.folder.glob("buildspec-*.yaml")
    assert f"npm install -g cdk-assets@{steps.CDK_ASSETS}" in assets.read_text("utf-8")

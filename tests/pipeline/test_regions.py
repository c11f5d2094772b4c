"""A pipeline in another region than its environments."""

from __future__ import annotations

import json

import pytest

from tests.constructs.test_rules import cfn_lint
from tests.pipeline.conftest import Synthesis, edited, synthesize

pytestmark = pytest.mark.xdist_group("pipeline-regions")

ONLY_DEV = {"  - environment: staging\n  - environment: prod\n    approval: always\n": ""}


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    """With one stage. Synthesis fails on a finding of cdk-nag, so here is none."""
    folder = tmp_path_factory.mktemp("regions")
    edits = {"region: us-west-2\n\nsource": "region: us-east-1\n\nsource", **ONLY_DEV}
    return synthesize(folder / "cdk.out", edited(folder, edits))


def test_artifacts_are_replicated_encrypted(elsewhere: Synthesis) -> None:
    [pipeline] = elsewhere.resources("AWS::CodePipeline::Pipeline").values()
    stores = {store["Region"]: store["ArtifactStore"] for store in pipeline["Properties"]["ArtifactStores"]}
    assert set(stores) == {"us-east-1", "us-west-2"}
    assert all("EncryptionKey" in store for store in stores.values())
    [file] = elsewhere.folder.glob("cross-region-stack-*.template.json")
    template = json.loads(file.read_text("utf-8"))
    [key] = [item for item in template["Resources"].values() if item["Type"] == "AWS::KMS::Key"]
    assert key["Properties"]["EnableKeyRotation"] is True
    assert cfn_lint(template, "us-west-2") == []


def test_deployments_run_in_the_environments_region(elsewhere: Synthesis) -> None:
    for action in elsewhere.stages["dev"]:
        deploys = action["ActionTypeId"]["Provider"] == "CloudFormation"
        assert (action.get("Region") == "us-west-2") is deploys


def test_steps_query_the_environments_region(elsewhere: Synthesis) -> None:
    _, project = elsewhere.project_of("dev", "Preflight")
    variables = {item["Name"]: item["Value"] for item in project["Environment"]["EnvironmentVariables"]}
    assert variables["TARGET_REGION"] == "us-west-2"
    assert project["ServiceRole"]["Fn::GetAtt"][0].startswith("Stepsdev")

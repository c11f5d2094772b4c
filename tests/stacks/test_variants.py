"""Deployments that the shipped environments do not show, and synthesis that is the same each time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import settings
from settings.model.cluster import Accounting, Api, Hook, LoginNodes
from settings.model.teams import Team
from settings.shares import METADATA
from stacks.deployment import compose
from tests.settings.conftest import SCRIPTS
from tests.settings.examples import ACCOUNTING, HOOK
from tests.stacks.conftest import ROOT, Synthesis, checked_app
from trainyard import cluster_bundle

pytestmark = pytest.mark.xdist_group("stacks-local")


def synthesize(folder: Path, environment: settings.Environment) -> Synthesis:
    """cdk-nag's findings fail the synthesis."""
    app = checked_app(folder)
    compose(app, environment)
    app.synth()
    return Synthesis(environment, folder)


def variant(environment: settings.Environment, **cluster: object) -> settings.Environment:
    return environment.model_copy(update={"cluster": environment.cluster.model_copy(update=cluster)})


@pytest.fixture(scope="module")
def environment() -> settings.Environment:
    return settings.load(ROOT / "environments" / "local.yaml")


def test_a_second_synthesis_gives_the_same_templates_and_assets(
    tmp_path: Path, environment: settings.Environment, local: Synthesis
) -> None:
    assert synthesize(tmp_path, environment).templates == local.templates
    assert {file.name for file in tmp_path.glob("asset.*")} == {file.name for file in local.folder.glob("asset.*")}


@pytest.fixture(scope="module")
def shared(environment: settings.Environment, tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    """With an existing database and two teams."""
    slurm = environment.cluster.slurm.model_copy(update={"accounting": Accounting.model_validate(ACCOUNTING)})
    teams = (Team(name="nlp", max_gpus=8), Team(name="vision", monthly_usd=1000))
    with_teams = variant(environment, slurm=slurm).model_copy(update={"teams": teams})
    return synthesize(tmp_path_factory.mktemp("shared"), with_teams)


def test_the_template_shows_shares_to_a_review(shared: Synthesis, local: Synthesis) -> None:
    nlp, _ = shared.templates["cluster"]["Metadata"][METADATA]["teams"]
    assert nlp == {"name": "nlp", "share": 1, "max_gpus": 8, "qos": []}
    assert METADATA not in local.templates["cluster"].get("Metadata", {})


def test_an_existing_api_needs_no_stack_of_its_own(tmp_path: Path, environment: settings.Environment) -> None:
    role = "arn:aws:iam::111122223333:role/caller"
    api = Api(url="https://abc.execute-api.us-east-1.amazonaws.com/prod", user_role_arn=role)
    made = synthesize(tmp_path, variant(environment, api=api))
    assert made.resources("api", "AWS::CloudFormation::Stack") == {}
    [cluster] = made.resources("cluster", "Custom::ParallelCluster").values()
    assert (cluster["Properties"]["ApiUrl"], cluster["Properties"]["ApiUserRoleArn"]) == (api.url, role)


def test_a_predecessor_is_a_frozen_resource_of_its_own_on_the_same_file_systems(
    tmp_path: Path, environment: settings.Environment, local: Synthesis
) -> None:
    made = synthesize(tmp_path, variant(environment, name="green", predecessor="local"))
    found = made.resources("cluster", "Custom::ParallelCluster")
    clusters = {key: item["Properties"] for key, item in found.items()}
    [before] = local.resources("cluster", "Custom::ParallelCluster")
    green = next(item for item in clusters.values() if item["ClusterName"] == "green")
    assert clusters[before]["ClusterName"] == "local" and clusters[before]["Frozen"] is True
    assert "Frozen" not in green
    assert green["Configuration"]["SharedStorage"] == clusters[before]["Configuration"]["SharedStorage"]


def test_public_login_nodes_lie_in_the_public_subnet_and_run_their_script(
    tmp_path: Path, environment: settings.Environment
) -> None:
    made = synthesize(tmp_path, variant(environment, login_nodes=LoginNodes(subnet="public")))
    [cluster] = made.resources("cluster", "Custom::ParallelCluster").values()
    [pool] = cluster["Properties"]["Configuration"]["LoginNodes"]["Pools"]
    assert "PublicSubnet" in json.dumps(pool["Networking"]["SubnetIds"])
    assert pool["CustomActions"]["OnNodeConfigured"]["Args"][1:] == ["login-configured", "us-east-1"]


def test_hooks_show_in_the_template_and_are_in_the_published_bundle(
    tmp_path: Path, environment: settings.Environment
) -> None:
    (tmp_path / "hooks").mkdir()
    (tmp_path / HOOK["script"]).write_bytes(SCRIPTS["good.sh"])
    hook = Hook.model_validate(HOOK)
    hook.read(tmp_path)
    made = synthesize(tmp_path / "cdk.out", variant(environment, hooks=(hook,)))
    [cluster] = made.resources("cluster", "Custom::ParallelCluster").values()
    assert cluster["Properties"]["Hooks"] == [f"compute-configured after hooks/good.sh {HOOK['sha256']}"]
    bundle = cluster_bundle.build(hooks=(hook,))
    assert cluster["Properties"]["AssetsVersion"] == bundle.sha256 != cluster_bundle.build().sha256
    [published] = made.folder.glob(f"asset.*/{bundle.key}")
    assert published.read_bytes() == bundle.content


def test_usage_is_read_through_a_document_of_its_own_and_budgets_reach_the_topic(
    shared: Synthesis, local: Synthesis
) -> None:
    commands = json.dumps(shared.resources("cluster", "AWS::SSM::Document"))
    assert "usage/request.sh {{ Request }}" in commands
    assert "usage/request.sh" not in json.dumps(local.templates["cluster"]), (
        "without accounting there is nothing to read"
    )

    def topics(found: Synthesis) -> list[str]:
        policies = found.resources("cluster", "AWS::IAM::ManagedPolicy").values()
        statements = [one for policy in policies for one in policy["Properties"]["PolicyDocument"]["Statement"]]
        [own] = [one for one in statements if one["Action"] == "sns:Publish"]
        return [own["Resource"]] if isinstance(own["Resource"], str) else list(own["Resource"])

    assert [arn.rpartition("-")[2] for arn in topics(shared)] == ["jobs", "notifications"]
    assert [arn.rpartition("-")[2] for arn in topics(local)] == ["jobs"]


def test_a_public_node_in_a_network_without_a_public_subnet_is_refused(
    tmp_path: Path, environment: settings.Environment
) -> None:
    network = environment.network.model_copy(update={"egress": "endpoints-only"})
    public = variant(environment, login_nodes=LoginNodes(subnet="public")).model_copy(update={"network": network})
    with pytest.raises(ValueError, match="the network has no public subnet"):
        compose(checked_app(tmp_path), public)

"""The roles of the GitHub workflows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.constructs.stacks_of import listed
from tests.pipeline.conftest import FILE, Synthesis, edited, statements_of, synthesize

pytestmark = pytest.mark.xdist_group("pipeline-github")


@pytest.fixture(scope="module")
def github(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    """Two of the shipped stages with GitHub alone."""
    return synthesize_github(tmp_path_factory.mktemp("github"), ("staging",))


def synthesize_github(folder: Path, left_out: tuple[str, ...], *more: str) -> Synthesis:
    """Synthesize with `github` in place of `source`, without some of the stages."""
    text = FILE.read_text("utf-8")
    source = text[text.index("source:") : text.index("stages:")]
    given = "\n".join(["github:", "  repository: example/trainyard", *more, "\n"])
    stages = {f"  - environment: {name}\n": "" for name in left_out}
    return synthesize(folder / "cdk.out", edited(folder, {source: given, **stages}))


def test_github_alone_needs_no_pipeline(github: Synthesis) -> None:
    assert not (github.folder / "pipeline.template.json").exists()
    assert set(github.stage_templates("dev")) >= {"cluster", "promotion"}


def test_roles_trust_one_environment_of_one_repository(github: Synthesis) -> None:
    template = github.stage_templates("prod")["promotion"]
    roles = {
        item["Properties"]["RoleName"]: item["Properties"]
        for item in template["Resources"].values()
        if item["Type"] == "AWS::IAM::Role"
    }
    assert set(roles) == {"prod-github-review-us-west-2", "prod-github-deployment-us-west-2"}
    [provider] = [item for item in template["Resources"].values() if item["Type"] == "AWS::IAM::OIDCProvider"]
    assert provider["Properties"]["ClientIdList"] == ["sts.amazonaws.com"]
    for name, place in (("review", "prod-review"), ("deployment", "prod")):
        [trust] = roles[f"prod-github-{name}-us-west-2"]["AssumeRolePolicyDocument"]["Statement"]
        assert trust["Action"] == "sts:AssumeRoleWithWebIdentity"
        assert trust["Condition"] == {
            "StringEquals": {
                "token.actions.githubusercontent.com:aud": "sts.amazonaws.com",
                "token.actions.githubusercontent.com:sub": f"repo:example/trainyard:environment:{place}",
            }
        }
    assert roles["prod-github-deployment-us-west-2"]["MaxSessionDuration"] == 6 * 3600


def test_repository_ids_are_in_the_trust_policy(tmp_path: Path) -> None:
    numbered = synthesize_github(tmp_path, ("dev", "staging"), "  owner_id: 123456", "  repository_id: 456789")
    template = numbered.stage_templates("prod")["promotion"]
    subjects = {
        statement["Condition"]["StringEquals"]["token.actions.githubusercontent.com:sub"]
        for item in template["Resources"].values()
        if item["Type"] == "AWS::IAM::Role"
        for statement in item["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    }
    repository = "repo:example@123456/trainyard@456789"
    assert subjects == {f"{repository}:environment:prod", f"{repository}:environment:prod-review"}


def test_review_assumes_only_its_environments_api_role(github: Synthesis) -> None:
    [statement] = statements_of(github.stage_templates("dev")["promotion"], "DryRun")
    assert statement["Condition"] == {"StringEquals": {"iam:ResourceTag/trainyard:environment": "dev"}}


def test_deployment_assumes_the_bootstrap_roles_of_its_account(github: Synthesis) -> None:
    statements = statements_of(github.stage_templates("prod")["promotion"], "Bootstrap")
    assumed = [resource for statement in statements for resource in listed(statement["Resource"])]
    roles = ("deploy-role", "file-publishing-role", "lookup-role")
    assert assumed == [f"arn:aws:iam::444455556666:role/cdk-hnb659fds-{r}-444455556666-us-west-2" for r in roles]

"""Pipeline files: every fault of a file at once, with its line and what is allowed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import jsonschema
import pytest
import yaml

import settings.pipeline
from cli import main
from settings import Faults
from settings.schema import schema_text
from tests.pipeline.conftest import FILE, edited
from tests.stacks.conftest import ROOT

FILES = sorted(FILE.parent.glob("*.yaml"))


def faults(folder: Path, edits: Mapping[str, str]) -> str:
    with pytest.raises(Faults) as caught:
        settings.pipeline.load(edited(folder, edits))
    return str(caught.value)


def test_shipped_file() -> None:
    promotion = settings.pipeline.load(FILE)
    assert [(t.reference, t.environment.name, t.approval) for t in promotion.targets] == [
        ("dev", "dev", "none"),
        ("staging", "staging", "none"),
        ("prod", "prod", "always"),
    ]
    accounts = {promotion.pipeline.account, *(t.environment.account for t in promotion.targets)}
    assert len(accounts) == 4


def test_last_stage_needs_an_approval_by_default(tmp_path: Path) -> None:
    silent = settings.pipeline.load(edited(tmp_path, {"    approval: always\n": ""}))
    assert [target.approval for target in silent.targets] == ["none", "none", "always"]
    said = settings.pipeline.load(edited(tmp_path, {"approval: always": "approval: none"}))
    assert said.targets[-1].approval == "none"


@pytest.mark.parametrize(
    ("edits", "key", "said"),
    [
        ({"environment: dev": "environment: devel"}, ":19: stages[0].environment", "one of dev, guide-2xg5"),
        ({"environment: staging": "environment: dev"}, "stages[1].environment", "dev, the name of stages[0] too"),
        ({'account: "5555': 'account: "5x55'}, ":10: account", "an account id, 12 digits"),
        ({'account: "555566667777"': "account: 555566667777"}, ":10: account", "put it in quotes"),
        ({"arn:aws:codeconnections": "arn:aws:codecommit"}, "source.connection", "the ARN of a connection"),
        ({"arn:aws:codeconnections": "arn:aws-cn:codeconnections"}, "source.connection", "in the partition aws,"),
        ({"region: us-west-2\n\nsource": "region: cn-north-1\n\nsource"}, "stages[0].environment", "partition aws-cn"),
        ({"repository: example/trainyard": "repository: trainyard"}, "source.repository", "<owner>/<repository>"),
        ({"approval: always": "approval: allways"}, "stages[2].approval", "did you mean always?"),
        ({"ml-platform@example.com": "ml-platform"}, "notifications.emails[0]", "an e-mail address"),
        ({"[ml-platform@example.com]": "[a@b.org, a@b.org]"}, "notifications.emails[1]", "each address once"),
        ({"name: trainyard": "name: Trainyard"}, ":9: name", "lower-case"),
        ({"  branch: main": "  tag: v1"}, "source.tag", "an unknown key"),
        ({"notifications:": "log_days: 31\nnotifications:"}, "log_days", "one of 1, 3, 5, 7, 14, 30, 60, 90"),
        ({"notifications:": "artifact_days: 1\nnotifications:"}, "artifact_days", "7 or more"),
    ],
)
def test_fault(tmp_path: Path, edits: Mapping[str, str], key: str, said: str) -> None:
    text = faults(tmp_path, edits)
    assert key in text
    assert said in text
    assert "given:" in text


def test_faults_of_the_file_and_of_its_environments_are_reported_together(tmp_path: Path) -> None:
    broken = variant(tmp_path, {"max: 2": "max: two"})
    text = faults(tmp_path, {**broken, "[ml-platform@example.com]": "[a@b.org, a@b.org]"})
    assert f"{tmp_path / 'variant.yaml'}:" in text
    assert "cluster.queues[0].compute[0].max" in text
    assert "notifications.emails[1]" in text


def variant(folder: Path, edits: Mapping[str, str]) -> dict[str, str]:
    """Edits that put a variant of dev's file in the place of dev's or staging's."""
    text = (ROOT / "environments" / "dev.yaml").read_text("utf-8")
    for old, new in edits.items():
        text = text.replace(old, new)
    (folder / "variant.yaml").write_text(text, "utf-8")
    return {"environment: staging": f"environment: {folder / 'variant.yaml'}"}


def test_stages_of_one_account_make_different_clusters(tmp_path: Path) -> None:
    twin = variant(tmp_path, {"name: dev\n": "name: twin\n", "cluster:\n": "cluster:\n  name: dev\n"})
    said = faults(tmp_path, twin)
    assert "the cluster dev, which stages[0] has in that account and region" in said


def test_environment_must_not_have_the_name_of_the_pipelines_stack(tmp_path: Path) -> None:
    other = variant(tmp_path, {"name: dev\n": "name: pipeline\n"})
    assert "an environment of any other name" in faults(tmp_path, other)


def test_source_or_github_is_required(tmp_path: Path) -> None:
    text = FILE.read_text("utf-8")
    source = text[text.index("source:") : text.index("stages:")]
    assert "source (CodePipeline), github (GitHub Actions), or both" in faults(tmp_path, {source: ""})


def test_one_oidc_provider_per_account(tmp_path: Path) -> None:
    other = variant(tmp_path, {"name: dev\n": "name: other\n"})
    said = faults(tmp_path, {**other, "notifications:": "github: {repository: a/b}\nnotifications:"})
    assert "github.provider" in said
    assert "existing, where stages share an account" in said


@pytest.mark.parametrize(("given", "missing"), [("owner_id", "repository_id"), ("repository_id", "owner_id")])
def test_github_ids_are_given_together(tmp_path: Path, given: str, missing: str) -> None:
    said = faults(tmp_path, {"notifications:": f"github: {{repository: a/b, {given}: 12}}\nnotifications:"})
    assert f"{given} without {missing}" in said
    assert "gh api repos/a/b --jq .owner.id,.id" in said
    assert "1 or more" in faults(tmp_path, {"notifications:": "github: {repository: a/b, owner_id: 0}\nnotifications:"})


def test_unknown_pipeline_name() -> None:
    with pytest.raises(ValueError, match="Under environments/pipelines/ there are: promotion"):
        settings.pipeline.pipeline_file("promotions")


def test_shipped_files_fit_the_schema() -> None:
    schema = json.loads(schema_text(settings.pipeline.Pipeline))
    for file in FILES:
        jsonschema.validate(yaml.safe_load(file.read_text("utf-8")), schema)
        assert file.read_text("utf-8").startswith("# yaml-language-server: $schema=pipeline.schema.json\n")


def test_command_line_checks_pipeline_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["check", "--pipeline", *map(str, FILES)]) == 0
    assert main(["check", "--pipeline", str(edited(tmp_path, {"environment: dev": "environment: x"}))]) == 1
    assert capsys.readouterr().out.endswith("1 fault\n")


def test_command_line_prints_names_of_an_environment(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["names", "prod"]) == 0
    assert capsys.readouterr().out == "name=prod\naccount=444455556666\nregion=us-west-2\n"

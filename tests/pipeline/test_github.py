"""The GitHub workflows, and the roles that they take."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

import settings.pipeline
from tests.pipeline.conftest import FILE, Synthesis, edited, listed, synthesize
from tests.stacks.conftest import ROOT
from trainyard.pipeline.names import target_role

pytestmark = pytest.mark.xdist_group("pipeline-github")

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ACTIONS = sorted((ROOT / ".github" / "actions").glob("*/action.yml"))
STAGE = ROOT / ".github" / "workflows" / "promote-environment.yml"


def read(file: Path) -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load(file.read_text("utf-8"))
    return found


def steps(file: Path) -> list[dict[str, Any]]:
    content = read(file)
    if "runs" in content:
        found: list[dict[str, Any]] = content["runs"]["steps"]
        return found
    return [step for job in content["jobs"].values() for step in job.get("steps", [])]


@pytest.mark.parametrize("file", [*WORKFLOWS, *ACTIONS], ids=lambda file: file.parent.name + "/" + file.stem)
def test_files_fit_githubs_schema(file: Path) -> None:
    schema = "vendor.github-actions" if file in ACTIONS else "vendor.github-workflows"
    done = subprocess.run(
        [str(ROOT / ".venv" / "bin" / "check-jsonschema"), "--builtin-schema", schema, str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_schema_would_not_let_a_fault_pass(tmp_path: Path) -> None:
    file = tmp_path / "broken.yml"
    file.write_text(STAGE.read_text("utf-8").replace("runs-on:", "run-on:"), "utf-8")
    checker = str(ROOT / ".venv" / "bin" / "check-jsonschema")
    done = subprocess.run([checker, "--builtin-schema", "vendor.github-workflows", str(file)], check=False)
    assert done.returncode == 1


@pytest.mark.parametrize("file", [*WORKFLOWS, *ACTIONS], ids=lambda file: file.parent.name + "/" + file.stem)
def test_actions_of_others_are_pinned_by_commit(file: Path) -> None:
    for line in file.read_text("utf-8").splitlines():
        used = re.search(r"uses: (\S+)(.*)", line)
        if used and not used[1].startswith("./"):
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", used[1]), line
            assert re.fullmatch(r" # v\d+\.\d+\.\d+", used[2]), line


def test_nothing_has_a_key_and_the_token_writes_nothing_but_comments() -> None:
    for file in WORKFLOWS:
        text = file.read_text("utf-8")
        assert "secrets." not in text
        assert "access-key" not in text
        content = read(file)
        assert content["permissions"] == {"contents": "read"}
        for job in content["jobs"].values():
            writes = {key for key, value in job.get("permissions", {}).items() if value == "write"}
            assert writes <= {"id-token", "pull-requests"}
    assert "id-token" not in (ROOT / ".github" / "workflows" / "review.yml").read_text("utf-8")


def test_no_text_of_others_is_pasted_into_a_shell() -> None:
    for file in [*WORKFLOWS, *ACTIONS]:
        for step in steps(file):
            assert "${{" not in step.get("run", ""), step


def test_environments_come_in_the_order_of_the_pipeline_file() -> None:
    jobs = read(ROOT / ".github" / "workflows" / "promote.yml")["jobs"]
    promotion = settings.pipeline.load(FILE)
    before = "test"
    for target in promotion.targets:
        job = jobs[target.environment.name]
        assert job["needs"] == before
        assert job["with"]["environment"] == target.reference
        assert job["with"].get("approval", "none") == target.approval
        before = target.environment.name
    assert set(jobs) == {"test", *(target.environment.name for target in promotion.targets)}


def test_what_is_deployed_is_the_assembly_of_the_verdict() -> None:
    jobs = read(STAGE)["jobs"]
    review = "\n".join(step.get("run", "") for step in jobs["review"]["steps"])
    deploy = "\n".join(step.get("run", "") for step in jobs["deploy"]["steps"])
    assert review.index("make synth") < review.index("review gate") < review.index("tar --create")
    assert "cdk deploy --app cdk.out --all" in deploy
    assert "synth" not in deploy
    assert deploy.index("cdk deploy") < deploy.index("-m validation")


LEVELS = ("nothing", "safe", "disruptive", "destructive", "")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("permissions", ["same", "changed", ""])
@pytest.mark.parametrize("approved", ["success", "failure"])
def test_nothing_but_a_harmless_verdict_passes_without_a_person(level: str, permissions: str, approved: str) -> None:
    jobs = read(STAGE)["jobs"]
    outputs = {"level": level, "permissions": permissions}
    asked = {job: _holds(jobs[job]["if"], {"needs.review.outputs": outputs}) for job in ("disruption", "permissions")}
    assert asked == {"disruption": level not in ("nothing", "safe"), "permissions": permissions != "same"}
    results = {job: (approved if needed else "skipped") for job, needed in asked.items()}
    runs = _holds(
        jobs["deploy"]["if"],
        {"needs.review.outputs": outputs, "results": {"review": "success", **results}},
    )
    assert runs is (approved == "success" or not any(asked.values()))


def test_a_failed_review_is_the_end() -> None:
    outputs = {"level": "safe", "permissions": "same"}
    results = {"review": "failure", "disruption": "skipped", "permissions": "skipped"}
    condition = read(STAGE)["jobs"]["deploy"]["if"]
    assert not _holds(condition, {"needs.review.outputs": outputs, "results": results})


@pytest.mark.parametrize(("judged", "now", "status"), [("1", "1", 0), ("2", "2", 0), ("1", "2", 1), ("", "1", 1)])
def test_a_verdict_of_an_earlier_attempt_deploys_nothing(judged: str, now: str, status: int) -> None:
    jobs = read(STAGE)["jobs"]
    step = jobs["deploy"]["steps"][0]
    assert step["env"] == {"ATTEMPT": "${{ needs.review.outputs.attempt }}"}
    assert jobs["review"]["outputs"]["attempt"] == "${{ steps.attempt.outputs.attempt }}"
    assert jobs["review"]["steps"][0]["id"] == "attempt"
    done = subprocess.run(
        ["bash", "-e", "-c", step["run"]],
        env={"ATTEMPT": judged, "GITHUB_RUN_ATTEMPT": now},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status
    assert ("Re-run all jobs" in done.stdout) is (status == 1)


def test_a_review_says_which_attempt_it_is_of(tmp_path: Path) -> None:
    output = tmp_path / "output"
    script = read(STAGE)["jobs"]["review"]["steps"][0]["run"]
    subprocess.run(
        ["bash", "-e", "-c", script], env={"GITHUB_RUN_ATTEMPT": "3", "GITHUB_OUTPUT": str(output)}, check=True
    )
    assert output.read_text("utf-8") == "attempt=3\n"


def _holds(condition: str, values: Mapping[str, Mapping[str, str]]) -> bool:
    """A condition of GitHub's, as Python has it; the few operators that ours use."""
    text = condition.replace("!cancelled()", "True").replace("&&", " and ").replace("||", " or ").replace("\n", " ")
    for key, value in values["needs.review.outputs"].items():
        text = text.replace(f"needs.review.outputs.{key}", repr(value))
    for job, result in values.get("results", {}).items():
        text = text.replace(f"needs.{job}.result", repr(result))
    assert re.fullmatch(r"[\s()='!a-zA-Z]*", text), text
    return bool(eval(text, {"__builtins__": {}}))  # noqa: S307 - of a file of ours, with the characters above


def test_the_workflow_takes_the_roles_that_the_stack_makes() -> None:
    environment = settings.load(ROOT / "environments" / "prod.yaml")
    text = STAGE.read_text("utf-8")
    for purpose in ("github-review", "github-deployment"):
        written = f"${{{{ steps.names.outputs.name }}}}-{purpose}-${{{{ steps.names.outputs.region }}}}"
        assert written in text
        filled = re.sub(
            r"\$\{\{ steps\.names\.outputs\.(\w+) \}\}", lambda found: getattr(environment, found[1]), written
        )
        assert filled == target_role(environment, purpose)


@pytest.fixture(scope="module")
def github(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    """The shipped stages with GitHub alone."""
    text = FILE.read_text("utf-8")
    source = text[text.index("source:") : text.index("stages:")]
    folder = tmp_path_factory.mktemp("github")
    file = edited(folder, {source: "github:\n  repository: example/trainyard\n\n"})
    return synthesize(folder / "cdk.out", file)


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
    assert roles["prod-github-deployment-us-west-2"]["MaxSessionDuration"] == 14400


def test_a_review_takes_the_role_of_its_own_environments_api_alone(github: Synthesis) -> None:
    [statement] = [
        statement
        for item in github.stage_templates("dev")["promotion"]["Resources"].values()
        if item["Type"] == "AWS::IAM::Policy"
        for statement in item["Properties"]["PolicyDocument"]["Statement"]
        if statement.get("Sid") == "DryRun"
    ]
    assert statement["Condition"] == {"StringEquals": {"iam:ResourceTag/trainyard:environment": "dev"}}


def test_a_deployment_takes_the_bootstraps_roles_of_its_account_and_region(github: Synthesis) -> None:
    template = github.stage_templates("prod")["promotion"]
    assumed = [
        resource
        for item in template["Resources"].values()
        if item["Type"] == "AWS::IAM::Policy"
        for statement in item["Properties"]["PolicyDocument"]["Statement"]
        if statement.get("Sid") == "Bootstrap"
        for resource in listed(statement["Resource"])
    ]
    roles = ("deploy-role", "file-publishing-role", "lookup-role")
    assert assumed == [f"arn:aws:iam::444455556666:role/cdk-hnb659fds-{r}-444455556666-us-west-2" for r in roles]


@pytest.mark.parametrize(
    ("rules", "status"), [("required_reviewers", 0), ("wait_timer required_reviewers", 0), ("wait_timer", 1), ("", 1)]
)
def test_an_environment_without_reviewers_lets_nothing_pass(tmp_path: Path, rules: str, status: int) -> None:
    gh = tmp_path / "gh"
    gh.write_text(
        f'#!/bin/sh\n[ "$2" = repos/example/trainyard/environments/prod ] || exit 9\necho "{rules}"\n', "utf-8"
    )
    gh.chmod(0o755)
    done = subprocess.run(
        ["bash", "scripts/require-reviewers.sh", "prod"],
        cwd=ROOT,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "GITHUB_REPOSITORY": "example/trainyard"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert ("nobody has approved" in done.stderr) is (status == 1)


def test_a_question_that_github_does_not_answer_lets_nothing_pass(tmp_path: Path) -> None:
    gh = tmp_path / "gh"
    gh.write_text("#!/bin/sh\necho 'HTTP 404' >&2; exit 1\n", "utf-8")
    gh.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "GITHUB_REPOSITORY": "example/trainyard"}
    done = subprocess.run(
        ["bash", "scripts/require-reviewers.sh", "prod"], cwd=ROOT, env=environment, capture_output=True, check=False
    )
    assert done.returncode == 1

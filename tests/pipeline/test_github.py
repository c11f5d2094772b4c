"""The GitHub workflows."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

import settings.pipeline
from tests.pipeline.conftest import FILE
from tests.stacks.conftest import ROOT
from tests.stubs import fake_command
from trainyard.pipeline.access import DEPLOYMENT_HOURS
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
def test_files_match_githubs_schema(file: Path) -> None:
    schema = "vendor.github-actions" if file in ACTIONS else "vendor.github-workflows"
    done = subprocess.run(
        [str(ROOT / ".venv" / "bin" / "check-jsonschema"), "--builtin-schema", schema, str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_schema_check_finds_a_fault(tmp_path: Path) -> None:
    file = tmp_path / "broken.yml"
    file.write_text(STAGE.read_text("utf-8").replace("runs-on:", "run-on:"), "utf-8")
    checker = str(ROOT / ".venv" / "bin" / "check-jsonschema")
    done = subprocess.run([checker, "--builtin-schema", "vendor.github-workflows", str(file)], check=False)
    assert done.returncode == 1


@pytest.mark.parametrize("file", [*WORKFLOWS, *ACTIONS], ids=lambda file: file.parent.name + "/" + file.stem)
def test_third_party_actions_are_pinned_by_commit(file: Path) -> None:
    for line in file.read_text("utf-8").splitlines():
        used = re.search(r"uses: (\S+)(.*)", line)
        if used and not used[1].startswith("./"):
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", used[1]), line
            assert re.fullmatch(r" # v\d+\.\d+\.\d+", used[2]), line


def test_workflows_have_no_keys_and_minimal_permissions() -> None:
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


def test_no_expressions_in_shell_commands() -> None:
    for file in [*WORKFLOWS, *ACTIONS]:
        for step in steps(file):
            assert "${{" not in step.get("run", ""), step


def test_environments_have_the_order_of_the_pipeline_file() -> None:
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


def test_workflow_deploys_the_reviewed_assembly() -> None:
    jobs = read(STAGE)["jobs"]
    review = "\n".join(step.get("run", "") for step in jobs["review"]["steps"])
    deploy = "\n".join(step.get("run", "") for step in jobs["deploy"]["steps"])
    assert review.index("make synth") < review.index("trainyard gate") < review.index("tar --create")
    assert "cdk deploy --app cdk.out --all" in deploy
    assert "synth" not in deploy
    assert deploy.index("cdk deploy") < deploy.index("trainyard validate")


@pytest.mark.parametrize(("job", "hours"), [("review", 1), ("deploy", DEPLOYMENT_HOURS)])
def test_session_covers_the_job_timeout(job: str, hours: int) -> None:
    content = read(STAGE)["jobs"][job]
    assert hours * 60 >= content["timeout-minutes"]
    [credentials] = [step for step in content["steps"] if "configure-aws-credentials" in step.get("uses", "")]
    # An hour is the action's own default.
    assert credentials["with"].get("role-duration-seconds", 3600) == hours * 3600


LEVELS = ("nothing", "safe", "disruptive", "destructive", "")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("permissions", ["same", "changed", ""])
@pytest.mark.parametrize("approved", ["success", "failure"])
def test_only_a_safe_verdict_passes_without_approval(level: str, permissions: str, approved: str) -> None:
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


def test_failed_review_stops() -> None:
    outputs = {"level": "safe", "permissions": "same"}
    results = {"review": "failure", "disruption": "skipped", "permissions": "skipped"}
    condition = read(STAGE)["jobs"]["deploy"]["if"]
    assert not _holds(condition, {"needs.review.outputs": outputs, "results": results})


@pytest.mark.parametrize(("judged", "now", "status"), [("1", "1", 0), ("2", "2", 0), ("1", "2", 1), ("", "1", 1)])
def test_verdict_of_an_earlier_attempt_stops(judged: str, now: str, status: int) -> None:
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


def test_review_outputs_its_attempt(tmp_path: Path) -> None:
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


def test_workflow_uses_the_role_names_of_the_stack() -> None:
    environment = settings.load(ROOT / "environments" / "prod.yaml")
    text = STAGE.read_text("utf-8")
    for purpose in ("github-review", "github-deployment"):
        written = f"${{{{ steps.names.outputs.name }}}}-{purpose}-${{{{ steps.names.outputs.region }}}}"
        assert written in text
        filled = re.sub(r"\$\{\{ steps\.names\.outputs\.(\w+) \}\}", lambda one: getattr(environment, one[1]), written)
        assert filled == target_role(environment, purpose)


BRANCHES = {"protected_branches": False, "custom_branch_policies": True}
REVIEWED = [
    {"id": 1, "type": "wait_timer"},
    {"id": 2, "type": "required_reviewers"},
    {"id": 3, "type": "branch_policy"},
]


@pytest.mark.parametrize(
    ("place", "options", "said"),
    [
        ({"deployment_branch_policy": BRANCHES, "protection_rules": REVIEWED}, [], ""),
        ({"deployment_branch_policy": BRANCHES, "protection_rules": REVIEWED[:1]}, [], "nobody has approved"),
        ({"deployment_branch_policy": BRANCHES, "protection_rules": REVIEWED[2:]}, [], "nobody has approved"),
        ({"deployment_branch_policy": BRANCHES, "protection_rules": REVIEWED[2:]}, ["--branches-only"], ""),
        ({"deployment_branch_policy": None, "protection_rules": REVIEWED[:2]}, [], "lets in every branch"),
        ({"deployment_branch_policy": None, "protection_rules": []}, ["--branches-only"], "lets in every branch"),
    ],
)
def test_an_environment_without_reviewers_or_for_every_branch_is_refused(
    tmp_path: Path, place: dict[str, Any], options: list[str], said: str
) -> None:
    (tmp_path / "place.json").write_text(json.dumps(place), "utf-8")
    done = require_reviewers(tmp_path, f'exec jq --raw-output "$4" {tmp_path}/place.json', *options)
    assert done.returncode == (1 if said else 0), done.stderr
    assert said in done.stderr
    assert bool(done.stderr) is bool(said)


def test_a_failing_query_is_refused(tmp_path: Path) -> None:
    assert require_reviewers(tmp_path, "echo 'HTTP 404' >&2; exit 1").returncode == 1


def require_reviewers(folder: Path, answer: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the script with a `gh` that runs `answer`."""
    query = "api repos/example/trainyard/environments/prod --jq"
    fake_command(folder / "gh", f'[ "$1 $2 $3" = "{query}" ] || exit 9\n{answer}')
    return subprocess.run(
        ["bash", "scripts/require-reviewers.sh", *options, "prod"],
        cwd=ROOT,
        env={"PATH": f"{folder}:{os.environ['PATH']}", "GITHUB_REPOSITORY": "example/trainyard"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_jobs_check_protection_before_they_get_credentials() -> None:
    jobs = read(STAGE)["jobs"]
    assert {job["environment"] for job in jobs.values()} == {
        "${{ inputs.environment }}" + suffix for suffix in ("", "-review", "-disruption", "-permissions")
    }
    for name, job in jobs.items():
        assert job["permissions"]["actions"] == "read", name
        asked = [index for index, step in enumerate(job["steps"]) if "require-reviewers.sh" in step.get("run", "")]
        credentials = [i for i, step in enumerate(job["steps"]) if "configure-aws-credentials" in step.get("uses", "")]
        assert asked, name
        assert max(asked) < min(credentials, default=len(job["steps"])), name
    conditions = [step.get("if") for step in jobs["deploy"]["steps"] if "require-reviewers.sh" in step.get("run", "")]
    assert conditions == ["inputs.approval == 'always'", "inputs.approval != 'always'"]


def test_only_main_is_promoted() -> None:
    promote = read(ROOT / ".github" / "workflows" / "promote.yml")
    # PyYAML reads the key `on` as true.
    assert promote[True]["push"]["branches"] == ["main"]
    first = promote["jobs"]["test"]
    assert first["if"] == "vars.TRAINYARD_PROMOTE == 'yes' && github.ref == 'refs/heads/main'"
    assert [name for name, job in promote["jobs"].items() if "needs" not in job] == ["test"]

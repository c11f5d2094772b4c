"""The CodeBuild projects: unprivileged, without Docker, with pinned tools, each in its own role."""

from __future__ import annotations

import configparser
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.pipeline.conftest import Synthesis
from tests.stacks.conftest import ROOT
from tests.stubs import fake_command
from trainyard.pipeline import steps

pytestmark = pytest.mark.xdist_group("pipeline")

ENVIRONMENTS = ["dev", "staging", "prod"]


def test_builds_are_unprivileged_and_without_docker(synthesis: Synthesis) -> None:
    projects = synthesis.resources("AWS::CodeBuild::Project")
    assert len(projects) == 12
    texts = [json.dumps(project["Properties"]["Source"]) for project in projects.values()]
    texts += [file.read_text("utf-8") for file in synthesis.folder.glob("buildspec-*.yaml")]
    for project in projects.values():
        assert project["Properties"]["Environment"]["PrivilegedMode"] is False
        assert project["Properties"]["Environment"]["Image"] == "aws/codebuild/standard:7.0"
    assert not [text for text in texts if "docker" in text.lower()]


def test_make_targets_exist(synthesis: Synthesis) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    called = set()
    for project in synthesis.resources("AWS::CodeBuild::Project").values():
        called |= set(re.findall(r"make ([a-z-]+)", json.dumps(project["Properties"]["Source"])))
    assert called == {"setup", "setup-steps", "lint", "test-fast", "synth"}
    assert called <= targets


def test_cdk_cli_version_is_that_of_package_json() -> None:
    package = json.loads((ROOT / "package.json").read_text("utf-8"))
    assert package["devDependencies"]["aws-cdk"] == steps.CDK_CLI


def _run(commands: list[str], folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run commands as CodeBuild does, in one shell, the first failure ending it; `program` replaces the command."""
    fake_command(folder / ".venv" / "bin" / "trainyard", program)
    script = "\n".join(["set -e", *commands, "env | grep -E '^(LEVEL|HEADLINE|PERMISSIONS|REPORT_URL|AWS_)' | sort"])
    variables = {
        "PATH": os.environ["PATH"],
        "CODEBUILD_BUILD_URL": "https://console/build",
        "TARGET_ROLE": "arn:aws:iam::222233334444:role/dev-diff-us-west-2",
        "TARGET_REGION": "us-west-2",
        "TARGET_NAME": "promotion-dev",
    }
    return subprocess.run(
        ["bash", "-c", script], cwd=folder, env=variables, capture_output=True, text=True, check=False
    )


GATED = """
mkdir -p report
echo '# verdict' > report/verdict.md; echo 'no changes' > report/permissions.txt
printf 'LEVEL=destructive\\nPERMISSIONS=same\\n' > report/variables
printf 'HEADLINE=DESTRUCTIVE: a (b) = c; $(touch hacked) `d`\\n' >> report/variables
"""


def test_verdict_becomes_variables_that_no_shell_evaluates(synthesis: Synthesis, tmp_path: Path) -> None:
    spec = synthesis.build_spec("dev", "Diff")
    done = _run(spec["phases"]["build"]["commands"], tmp_path, GATED)
    assert done.returncode == 0, done.stderr
    assert "# verdict" in done.stdout
    assert "no changes" in done.stdout
    assert "LEVEL=destructive\n" in done.stdout
    assert "HEADLINE=DESTRUCTIVE: a (b) = c; $(touch hacked) `d`\n" in done.stdout
    assert "REPORT_URL=https://console/build\n" in done.stdout
    assert not (tmp_path / "hacked").exists()
    assert spec["env"]["exported-variables"] == ["HEADLINE", "REPORT_URL", "LEVEL", "PERMISSIONS"]


@pytest.mark.parametrize("step", ["Preflight", "Diff", "Validation"])
def test_step_exits_as_its_command_and_prints_its_report(synthesis: Synthesis, tmp_path: Path, step: str) -> None:
    commands = synthesis.build_spec("dev", step)["phases"]["build"]["commands"]
    done = _run(commands, tmp_path, f"echo reason > report/{'verdict' if step == 'Diff' else step.lower()}.md; exit 4")
    assert done.returncode == 4
    assert "reason" in done.stdout
    assert "LEVEL" not in done.stdout


def test_steps_use_a_role_of_the_environments_account(synthesis: Synthesis, tmp_path: Path) -> None:
    commands = synthesis.build_spec("dev", "Preflight")["phases"]["build"]["commands"]
    done = _run(commands, tmp_path, "echo fine > report/preflight.md")
    assert f"AWS_CONFIG_FILE={tmp_path}/.aws-target\n" in done.stdout
    assert "AWS_PROFILE=target\n" in done.stdout
    assert "AWS_REGION=us-west-2\n" in done.stdout
    profile = configparser.ConfigParser()
    profile.read(tmp_path / ".aws-target")
    assert dict(profile["profile target"]) == {
        "role_arn": "arn:aws:iam::222233334444:role/dev-diff-us-west-2",
        "role_session_name": "promotion-dev",
        "credential_source": "EcsContainer",
    }


def test_asset_publication_covers_every_environment(synthesis: Synthesis) -> None:
    [file] = synthesis.folder.glob("buildspec-*.yaml")
    commands = yaml.safe_load(file.read_text("utf-8"))["phases"]["build"]["commands"]
    for name in ENVIRONMENTS:
        assert any(f'--path "assembly-{name}/' in command for command in commands)

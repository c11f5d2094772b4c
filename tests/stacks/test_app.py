"""The app as the CDK CLI starts it, and its messages about bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ops.aws.cdk import App
from settings.stacks import STACKS, stack_name
from tests.constructs.stacks_of import environment
from tests.stacks.conftest import ROOT, Synthesis
from tests.stubs import fake_command


def run(tmp_path: Path, **context: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "app.py"],
        cwd=ROOT,
        env={**os.environ, "CDK_OUTDIR": str(tmp_path), "CDK_CONTEXT_JSON": json.dumps(context)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize(
    ("context", "said"),
    [
        ({"env": "jakarta-8"}, "dev, guide-2xg5, jakarta-80xp5e, local, megatron-2xp5, prod, staging"),
        ({"pipeline": "promotions"}, "There is no pipeline 'promotions'"),
        ({"pipeline": "promotion", "env": "dev"}, "Give one of them"),
        ({"removal": "unit"}, "Give <account>/<region>/<name"),
        ({"pipeline": "missing.yaml"}, "a file that cannot be read"),
    ],
)
def test_a_fault_is_reported_without_a_traceback(tmp_path: Path, context: dict[str, str], said: str) -> None:
    done = run(tmp_path, **context)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_all_faults_of_a_file_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text('name: bad\nregion: nowhere\naccount: "1"\ncolour: red\n')
    done = run(tmp_path / "cdk.out", env=str(file))
    assert done.returncode == 1
    for key, line in (("region", 2), ("account", 3), ("colour", 4)):
        assert f"bad.yaml:{line}: {key}" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_app_also_runs_without_the_context_of_the_cdk_cli(tmp_path: Path) -> None:
    done = run(tmp_path, env="local")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "cluster.template.json").exists()


def test_a_removal_has_all_stacks_each_after_those_that_may_use_it(tmp_path: Path) -> None:
    unit = environment()  # a file without accounting
    option, name = App(Path("unit.yaml"), unit, tmp_path).removal[1].split("=")
    done = run(tmp_path, **{option: name})
    assert done.returncode == 0, done.stderr
    made, parts = Synthesis(unit, tmp_path), [part for part in STACKS if part != "promotion"]
    assert set(made.stacks) == set(parts)
    for number, part in enumerate(parts):  # from the one that is deleted last
        stack = made.stacks[part]
        assert stack["properties"]["stackName"] == stack_name(unit, part)
        assert stack["environment"] == f"aws://{unit.account}/{unit.region}"
        assert set(parts[:number]) <= set(stack["dependencies"])
        assert made.templates[part]["Resources"]  # the CDK CLI validates templates


def test_cdk_json_starts_the_projects_own_interpreter_and_reports_nothing_home() -> None:
    given = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))
    assert given["app"] == ".venv/bin/python -O app.py"
    assert given["versionReporting"] is False
    assert given["context"]["cli-telemetry"] is False


PROCESSES = """
from trainyard import jsii_process
import aws_cdk, json, subprocess
jsii_process.load_ahead()
program = jsii_process.program
answers = [json.loads(program.answers.channel.readline()) for _ in range(program.answers.ahead)] if program else []
if program:
    program.answers.ahead = 0
aws_cdk.App()
print(json.dumps({"direct": bool(program), "failed": [one for one in answers if one.get("ok") != {"result": False}]}))
"""


def test_python_speaks_to_the_node_program_of_the_installed_jsii() -> None:
    """It fails for another version of jsii: then compare jsii's `_NodeProcess.start` with jsii_process.py."""
    done = subprocess.run([sys.executable, "-c", PROCESSES], capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(done.stdout) == {"direct": True, "failed": []}


@pytest.mark.parametrize("variable", ["JSII_NODE", "JSII_RUNTIME"])
def test_a_users_own_setting_for_jsii_counts(variable: str, tmp_path: Path) -> None:
    program = fake_command(tmp_path / "given", '#!/bin/sh\necho "asked: $*" >&2\nexit 1\n')
    done = subprocess.run(
        [sys.executable, "-c", PROCESSES],
        env={**os.environ, variable: str(program)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode != 0
    assert "asked: " in done.stderr if variable == "JSII_NODE" else "given" in done.stderr, done.stderr


def test_a_direct_synthesis_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    direct, usual = tmp_path / "direct", tmp_path / "usual"
    assert run(direct, env="local").returncode == 0
    monkeypatch.setenv("JSII_NODE", "node")
    assert run(usual, env="local").returncode == 0
    # Metadata of constructs holds stack traces with the names of Node's files.
    difference = ["diff", "--recursive", "--exclude=*.metadata.json", str(direct), str(usual)]
    assert not subprocess.run(difference, capture_output=True, check=False).stdout

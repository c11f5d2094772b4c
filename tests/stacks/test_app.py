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
    assert given["app"] == ".venv/bin/python app.py"
    assert given["versionReporting"] is False
    assert given["context"]["cli-telemetry"] is False

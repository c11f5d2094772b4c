"""The app as the CDK CLI starts it, and its messages about bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.stacks.conftest import ROOT


def run(tmp_path: Path, name: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "app.py"],
        cwd=ROOT,
        env={**os.environ, "CDK_OUTDIR": str(tmp_path), "CDK_CONTEXT_JSON": json.dumps({"env": name})},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_an_environment_that_is_not_there_is_refused_with_the_names_of_those_that_are(tmp_path: Path) -> None:
    done = run(tmp_path, "jakarta")
    assert done.returncode == 1
    assert "dev, guide-2xg5, jakarta-80xp5e, local, megatron-2xp5, prod, staging" in done.stderr
    assert "Traceback" not in done.stderr


def test_all_faults_of_a_file_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text('name: bad\nregion: nowhere\naccount: "1"\ncolour: red\n')
    done = run(tmp_path / "cdk.out", str(file))
    assert done.returncode == 1
    for key, line in (("region", 2), ("account", 3), ("colour", 4)):
        assert f"bad.yaml:{line}: {key}" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_app_also_runs_without_the_context_of_the_cdk_cli(tmp_path: Path) -> None:
    done = run(tmp_path, "local")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "cluster.template.json").exists()


def test_cdk_json_starts_the_projects_own_interpreter_and_reports_nothing_home() -> None:
    given = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))
    assert given["app"] == ".venv/bin/python app.py"
    assert given["versionReporting"] is False
    assert given["context"]["cli-telemetry"] is False

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


def run(tmp_path: Path, *options: str, **context: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, "app.py"],
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


START = "from trainyard import jsii_process; import aws_cdk as cdk; jsii_process.load_ahead()\n"


def in_python(code: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run code whose temporary files are in `folder`."""
    env = {**os.environ, "TMPDIR": str(folder), **env}
    line = [sys.executable, "-c", code]
    return subprocess.run(line, env=env, capture_output=True, text=True, check=False, timeout=120)


def test_python_talks_to_the_node_program_of_the_installed_jsii(tmp_path: Path) -> None:
    """It fails for another version of jsii: then compare jsii's `_NodeProcess.start` with jsii_process.py."""
    done = in_python(
        START + "p = jsii_process.program; print(*(p.answers.channel.readline().strip() for _ in jsii_process.LARGE))\n"
        "p.answers.ahead = 0; cdk.App(); import os; print(os.get_blocking(1), os.get_blocking(2))",
        tmp_path,
    )
    answers, blocking = done.stdout.splitlines()
    assert set(answers.split()) == {'b\'{"ok":{"result":false}}\''}, done.stdout + done.stderr
    assert blocking == "True True", "Node shares no stream with Python"
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("variable", ["JSII_NODE", "JSII_RUNTIME"])
def test_a_users_own_setting_for_jsii_counts(variable: str, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    shell = fake_command(tmp_path / "given", f"#!/bin/sh\necho shell >{asked}\n")
    script = tmp_path / "given.js"
    script.write_text(f"require('fs').writeFileSync('{asked}', 'script\\n')")
    given = {"JSII_NODE": shell, "JSII_RUNTIME": script}[variable]
    assert in_python(START, tmp_path, **{variable: str(given)}).returncode != 0
    assert asked.read_text() == {"JSII_NODE": "shell\n", "JSII_RUNTIME": "script\n"}[variable]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("from trainyard import jsii_process; import no_such_module", "No module named 'no_such_module'"),
        (
            START + "import jsii\n@jsii.implements(cdk.IAspect)\nclass Stop:\n"
            "    def visit(self, node): raise KeyboardInterrupt('stopped')\n"
            "app = cdk.App(); cdk.Aspects.of(cdk.Stack(app, 'S')).add(Stop()); app.synth()",
            "stopped",
        ),
    ],
)
def test_node_ends_with_python(code: str, said: str, tmp_path: Path) -> None:
    """Where an import fails, and in the middle of a callback: neither its source text nor its folders are left."""
    done = in_python(code, tmp_path)
    assert done.returncode != 0
    assert said in done.stderr
    assert len(done.stderr) < 10_000
    assert not [*tmp_path.iterdir()]


def test_a_direct_synthesis_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As cdk.json has it, and as jsii starts its processes; both without the context of the CDK CLI."""
    direct, usual = tmp_path / "direct", tmp_path / "usual"
    assert run(direct, "-O", env="local").returncode == 0
    monkeypatch.setenv("JSII_NODE", "node")
    assert run(usual, env="local").returncode == 0
    assert (usual / "cluster.template.json").exists()
    # Metadata of constructs holds stack traces with the names of Node's files.
    difference = ["diff", "--recursive", "--exclude=*.metadata.json", str(direct), str(usual)]
    done = subprocess.run(difference, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

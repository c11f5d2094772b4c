"""Functions are packaged by copying: without Docker and pip, the same files and modes on every machine."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import aws_cdk as cdk
import pytest

from trainyard.python_function import REQUIREMENTS, PythonFunction
from trainyard.retention import FunctionLogs


@pytest.fixture
def source(tmp_path: Path) -> Path:
    package = tmp_path / "greeter" / "greeter"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "main.py").write_text("def handler(event, context):\n    return event\n")
    return package.parent


def synthesize(source: Path, output: Path) -> tuple[str, dict[str, tuple[int, bytes]]]:
    """The template, and mode and content of each file of the function's asset."""
    app = cdk.App(outdir=str(output), builtin_cloud_formation_validation=False)
    PythonFunction(
        cdk.Stack(app, "Stack"),
        "Greeter",
        handlers=source.parent,
        module="greeter/main.py",
        description="Greets.",
        timeout=cdk.Duration.seconds(5),
        logs=FunctionLogs(30, kept=True),
    )
    app.synth()
    [asset] = [path for path in output.glob("asset.*") if path.is_dir()]
    files = {
        str(path.relative_to(asset)): (stat.S_IMODE(path.stat().st_mode), path.read_bytes())
        for path in asset.rglob("*")
        if path.is_file()
    }
    return (output / "Stack.template.json").read_text(encoding="utf-8"), files


def test_the_package_is_the_folder_whatever_the_developers_umask_and_leftovers(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "no-docker-here"))
    (source / "tool.sh").write_text("#!/bin/sh\n")
    (source / "tool.sh").chmod(0o755)
    clean = synthesize(source, tmp_path / "clean")
    assert {name: mode for name, (mode, _) in clean[1].items()} == {
        "greeter/__init__.py": 0o644,
        "greeter/main.py": 0o644,
        "tool.sh": 0o755,
    }
    (source / "greeter" / "__pycache__").mkdir()
    (source / "greeter" / "__pycache__" / "main.cpython-311.pyc").write_bytes(b"byte code")
    (source / "greeter" / "main.py").chmod(0o600)
    (source / "tool.sh").chmod(0o700)
    before = os.umask(0o077)
    try:
        assert synthesize(source, tmp_path / "again") == clean
    finally:
        os.umask(before)


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_a_function_with_requirements_is_refused(source: Path, tmp_path: Path, name: str) -> None:
    (source / name).touch()
    with pytest.raises(ValueError, match=f"greeter has {name}, but functions are packaged without installing anything"):
        synthesize(source, tmp_path / "out")

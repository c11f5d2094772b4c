"""Functions are packaged by copying: without Docker and pip, the same files and modes on every machine."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import aws_cdk as cdk
import pytest

from trainyard.python_function import REQUIREMENTS, PythonFunction


@pytest.fixture
def source(tmp_path: Path) -> Path:
    package = tmp_path / "source" / "greeter"
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
        entry=source,
        module="greeter/main.py",
        description="Greets.",
        timeout=cdk.Duration.seconds(5),
    )
    app.synth()
    [asset] = [path for path in output.glob("asset.*") if path.is_dir()]
    files = {
        str(path.relative_to(asset)): (stat.S_IMODE(path.stat().st_mode), path.read_bytes())
        for path in asset.rglob("*")
        if path.is_file()
    }
    return (output / "Stack.template.json").read_text(encoding="utf-8"), files


def test_the_package_is_the_folder_and_no_container_is_started(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "no-docker-here"))
    _, files = synthesize(source, tmp_path / "out")
    assert set(files) == {"greeter/__init__.py", "greeter/main.py"}
    assert files["greeter/main.py"][1] == (source / "greeter/main.py").read_bytes()


def test_umask_and_leftovers_of_the_developer_change_nothing(source: Path, tmp_path: Path) -> None:
    clean = synthesize(source, tmp_path / "clean")
    (source / "greeter" / "__pycache__").mkdir()
    (source / "greeter" / "__pycache__" / "main.cpython-311.pyc").write_bytes(b"byte code")
    (source / "greeter" / "main.py").chmod(0o600)
    before = os.umask(0o077)
    try:
        again = synthesize(source, tmp_path / "again")
    finally:
        os.umask(before)
    assert again == clean
    assert {mode for mode, _ in again[1].values()} == {0o644}


def test_an_executable_file_stays_executable(source: Path, tmp_path: Path) -> None:
    (source / "tool.sh").write_text("#!/bin/sh\n")
    (source / "tool.sh").chmod(0o700)
    _, files = synthesize(source, tmp_path / "out")
    assert files["tool.sh"][0] == 0o755


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_a_function_with_requirements_is_refused(source: Path, tmp_path: Path, name: str) -> None:
    (source / name).touch()
    with pytest.raises(ValueError, match=f"source has {name}, but functions are packaged without installing anything"):
        synthesize(source, tmp_path / "out")


def test_no_shipped_function_has_requirements() -> None:
    folders = [path for path in (Path(__file__).parents[2] / "lambda").iterdir() if path.is_dir()]
    assert folders
    assert not [path for folder in folders for name in REQUIREMENTS if (path := folder / name).exists()]

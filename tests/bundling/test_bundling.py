"""Bundling: the same files, modes and hash with a container engine and without, wheels for Lambda, clear failures."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from aws_cdk import aws_lambda as lambda_

from tests.bundling.conftest import Bundled, recorded
from trainyard import bundling

Synthesize = Callable[[Path], Bundled]


@pytest.mark.usefixtures("no_engine")
def test_without_an_engine_the_requirements_are_wheels_for_the_lambda_platform(
    synthesize: Synthesize, source: Path
) -> None:
    files = synthesize(source).files()
    assert "six.py" in files
    assert [name for name in files if name.endswith(".so")] == ["markupsafe/_speedups.cpython-313-aarch64-linux-gnu.so"]
    assert files["greeter/main.py"][1] == (source / "greeter/main.py").read_bytes()


@pytest.mark.usefixtures("no_engine")
def test_umask_and_leftovers_of_the_developer_change_nothing(synthesize: Synthesize, source: Path) -> None:
    clean = synthesize(source)
    (source / "greeter" / "__pycache__").mkdir()
    (source / "greeter" / "__pycache__" / "main.cpython-311.pyc").write_bytes(b"byte code")
    (source / "greeter" / "main.py").chmod(0o600)
    before = os.umask(0o077)
    try:
        again = synthesize(source)
    finally:
        os.umask(before)
    assert again.template == clean.template
    assert again.files() == clean.files()
    assert {mode for mode, _ in again.files().values()} <= {0o644, 0o755}
    assert not any("__pycache__" in name or name.endswith("/RECORD") for name in again.files())


def test_with_and_without_an_engine_the_files_and_the_hash_are_the_same(
    synthesize: Synthesize, source: Path, engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_container = synthesize(source)
    assert [arguments[0] for arguments in recorded(engine)] == ["version", "run"]
    arguments = recorded(engine)[-1]
    assert "public.ecr.aws/sam/build-python3.13" in arguments
    assert arguments[arguments.index("--platform") + 1] == "linux/arm64"
    assert "PIP_PYTHON_VERSION=3.13" in arguments
    assert "PIP_PLATFORM=manylinux_2_28_aarch64 manylinux2014_aarch64" in arguments
    assert f"{source}:/asset-input:delegated" in arguments

    monkeypatch.setenv("CDK_DOCKER", str(engine.parent / "no-such-engine"))
    on_this_machine = synthesize(source)
    assert on_this_machine.template == in_container.template
    assert on_this_machine.files() == in_container.files()


@pytest.mark.usefixtures("no_engine")
def test_a_requirement_that_cannot_be_had_fails_with_what_to_do(synthesize: Synthesize, source: Path) -> None:
    # A file that is not there: no package index is asked.
    (source / "requirements.txt").write_text("six @ file:///nowhere/six-1.17.0-py3-none-any.whl\n")
    with pytest.raises(RuntimeError, match=r"pip could not install requirements\.txt for Python 3\.13") as failure:
        synthesize(source)
    assert "Pin versions that have wheels" in str(failure.value)


def test_without_pip_the_message_names_the_two_ways_out(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interpreter = tmp_path / "python"
    interpreter.write_text(f'#!/bin/sh\necho "{tmp_path}/python: No module named pip" >&2\nexit 1\n')
    interpreter.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(interpreter))
    environment = bundling.pip_environment(lambda_.Runtime.PYTHON_3_13, lambda_.Architecture.ARM_64)
    with pytest.raises(bundling.BundlingError, match=r"make setup.*or start Docker"):
        bundling.bundle(source, tmp_path / "output", environment)


@pytest.mark.parametrize("engine_path", ["no-such-engine", "exits-with-1"])
def test_an_engine_that_does_not_answer_is_none(
    engine_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "exits-with-1").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "exits-with-1").chmod(0o755)
    monkeypatch.setenv("CDK_DOCKER", str(tmp_path / engine_path))
    bundling.engine_answers.cache_clear()
    assert bundling.engine_answers() is False
    bundling.engine_answers.cache_clear()


def test_a_function_without_requirements_needs_no_pip(tmp_path: Path, source: Path) -> None:
    (source / "requirements.txt").unlink()
    bundling.bundle(source, tmp_path / "output", environment={})
    assert sorted(path.name for path in (tmp_path / "output").rglob("*")) == ["__init__.py", "greeter", "main.py"]

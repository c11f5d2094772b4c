"""The folder constructs/ must never hide the package `constructs`, nor be a second way to import `trainyard`."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import constructs

import trainyard

ROOT = Path(__file__).parents[1]


def test_the_folder_constructs_is_not_a_package() -> None:
    assert not (ROOT / "constructs" / "__init__.py").exists()


def test_constructs_is_the_package_from_pypi() -> None:
    assert constructs.__file__ is not None
    assert not Path(constructs.__file__).is_relative_to(ROOT / "constructs")
    assert "site-packages" in Path(constructs.__file__).parts


def test_the_app_takes_one_import_path() -> None:
    """`constructs` extends its path by pkgutil, so Python would take `constructs.trainyard` too: ruff bans it."""
    assert Path(str(trainyard.__file__)) == ROOT / "constructs" / "trainyard" / "__init__.py"
    listing = "import sys, app; print(*[name for name in sys.modules if name.startswith('constructs.')])"
    loaded = subprocess.run([sys.executable, "-c", listing], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "constructs._jsii" in loaded.stdout
    assert "trainyard" not in loaded.stdout
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "constructs.trainyard" in configuration["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]

"""Where packages lie whose data files the emulator reads without running their code."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def installed(package: str) -> Path:
    """The folder of a package of local/.venv; raises RuntimeError when it is not installed."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise RuntimeError(f"{package} is not installed in local/.venv: run `uv sync` in local/")
    return Path(spec.origin).parent

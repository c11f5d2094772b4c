"""Where pipeline files are, and which one a user means."""

from __future__ import annotations

import os
from pathlib import Path

from settings.files import SUFFIXES

PIPELINES = Path(__file__).resolve().parents[2] / "environments" / "pipelines"


def pipeline_file(name: str) -> Path:
    """The file that a user means: a name under pipelines/, or a path that ends in .yaml or .yml.

    Raises:
        ValueError: no file of that name under pipelines/. (A path is not looked at here: `load` says what is wrong.)
    """
    if Path(name).suffix in SUFFIXES:
        return Path(name)
    files = {file.stem: file for file in sorted(PIPELINES.glob("*.yaml"))}
    if name not in files:
        raise ValueError(
            f"There is no pipeline {name!r}. Under pipelines/ there are: {', '.join(files)}. "
            "Name one of these, or the path of a .yaml file."
        )
    return Path(os.path.relpath(files[name]))

"""Where environment files are, and which one a user means."""

from __future__ import annotations

import os
from pathlib import Path

ENVIRONMENTS = Path(__file__).resolve().parents[1] / "environments"
SUFFIXES = {".yaml", ".yml"}


def environment_file(name: str) -> Path:
    """The file that a user means: a name under environments/, or a path that ends in .yaml or .yml.

    Raises:
        ValueError: no file of that name under environments/. (A path is not looked at here: `load` says what is wrong.)
    """
    if Path(name).suffix in SUFFIXES:
        shipped = ENVIRONMENTS / name
        return shipped if "/" not in name and not Path(name).exists() and shipped.exists() else Path(name)
    files = {file.stem: file for file in sorted(ENVIRONMENTS.glob("*.yaml"))}
    if name not in files:
        raise ValueError(
            f"There is no environment {name!r}. Under environments/ there are: {', '.join(files)}. "
            "Name one of these, or the path of a .yaml file."
        )
    return Path(os.path.relpath(files[name]))

"""Finds the environment or pipeline file that a user names."""

from __future__ import annotations

import os
from pathlib import Path

ENVIRONMENTS = Path(__file__).resolve().parents[1] / "environments"
PIPELINES = ENVIRONMENTS / "pipelines"
SUFFIXES = (".yaml", ".yml")


class UnknownName(ValueError):
    """No file has the name; the message lists the names that exist."""


def environment_names() -> list[str]:
    """Names of the files under environments/."""
    return list(_files(ENVIRONMENTS))


def environment_file(name: str) -> Path:
    """The file for a name under environments/ (the file's or the `name` in it), or for a path in .yaml or .yml.

    Raises:
        UnknownName: no file has that name. (A path is returned unchecked: `load` reports what is wrong with it.)
    """
    return _find(name, ENVIRONMENTS, "environment")


def pipeline_file(name: str) -> Path:
    """As `environment_file`, for names under environments/pipelines/."""
    return _find(name, PIPELINES, "pipeline")


def _find(name: str, folder: Path, what: str) -> Path:
    if Path(name).suffix in SUFFIXES:
        shipped = folder / name
        return shipped if "/" not in name and not Path(name).exists() and shipped.exists() else Path(name)
    files = _files(folder)
    if name not in files:  # messages of the cluster have the environment's name, not its file's
        named = [file for file in files.values() if f"\nname: {name}\n" in f"\n{file.read_text(encoding='utf-8')}"]
        if len(named) == 1:
            return Path(os.path.relpath(named[0]))
        where = folder.relative_to(ENVIRONMENTS.parent)
        raise UnknownName(
            f"There is no {what} {name!r}. Under {where}/ there are: {', '.join(files)}. "
            "Name one of these, or the path of a .yaml file."
        )
    return Path(os.path.relpath(files[name]))


def _files(folder: Path) -> dict[str, Path]:
    return {file.stem: file for suffix in reversed(SUFFIXES) for file in sorted(folder.glob(f"*{suffix}"))}

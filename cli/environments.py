"""From the ENV of a command line to an environment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from settings import Environment


def find(name: str) -> Path:
    """The absolute path of an environment file.

    Raises:
        Problem: no environment has this name; the message lists the names that exist.
    """
    from ops.problem import Problem
    from settings import environment_file

    try:
        return environment_file(name).resolve()
    except ValueError as unknown:
        raise Problem(str(unknown)) from unknown


def read(name: str) -> tuple[Path, Environment]:
    """The file and its content.

    Raises:
        Problem: no environment has this name.
        Faults: the file has faults.
    """
    from settings import load

    file = find(name)
    return file, load(file)

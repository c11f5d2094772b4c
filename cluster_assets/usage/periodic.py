"""What budgets.py and idle_gpus.py share: the command line, and a state file between two runs.

The standard library only, Python 3.9.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def main(description: str, check: Callable[[Json, Json, Path, float], object]) -> None:
    """Call `check` with the settings, people.json, the folder for its state and the time, if there is a people.json."""
    parser = argparse.ArgumentParser(description=description)
    for name in ("settings", "people", "folder"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    options = parser.parse_args()
    if options.people.is_file():
        people = json.loads(options.people.read_text())
        check(json.loads(options.settings.read_text()), people, options.folder, time.time())


def read(file: Path) -> Json:
    """The state that the run before has written; empty without one."""
    found: Json = json.loads(file.read_text()) if file.is_file() else {}
    return found


def write(file: Path, state: Json) -> None:
    """Replace the state."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_suffix(".tmp")
    temporary.write_text(json.dumps(state))
    temporary.replace(file)

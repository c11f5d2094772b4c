"""Reads and writes the watchdog's files, which may be missing or damaged, and runs commands.

The standard library only, Python 3.9 or later.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def say(text: str) -> None:
    """A line of the job's log."""
    print(f"{time.strftime('%FT%TZ', time.gmtime())} watchdog: {text}", file=sys.stderr, flush=True)


def read(path: Path) -> str:
    """A small file; empty if it cannot be read."""
    try:
        return path.read_text().strip()
    except (OSError, ValueError):
        return ""


def load(path: Path) -> Any:  # noqa: ANN401 -- JSON
    """A JSON file; None if it is missing or damaged."""
    try:
        return json.loads(read(path))
    except ValueError:
        return None


def regular(path: Path) -> os.stat_result | None:
    """Size and times of a regular file; None if it is another file, or cannot be read."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None


def size(path: Path) -> int:
    """Bytes of a file."""
    found = regular(path)
    return found.st_size if found else 0


def files(folder: Path) -> list[Path]:
    """The visible files of a folder, those of ranks in their order."""
    try:
        found = [path for path in folder.iterdir() if not path.name.startswith(".")]
    except OSError:
        return []
    return sorted(found, key=lambda path: (len(path.name), path.name) if path.name.isdigit() else (0, path.name))


def run(words: list[str], seconds: float) -> tuple[int, str]:
    """Status and output of a command, which may be missing (127) or take too long (124)."""
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=seconds, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return 124, f"no answer in {seconds:g} s"
    except OSError as problem:
        return 127, str(problem)
    return done.returncode, done.stdout.strip()


def last_step(folder: Path) -> int:
    """The highest step that a rank has reported; -1 if none has."""
    steps = [read(path) for path in files(folder / "progress")]
    return max((int(text) for text in steps if text.isdigit()), default=-1)


def history(path: Path) -> list[dict[str, Any]]:
    """The earlier attempts of a job (attempts.py), without lines that were cut off."""
    found = []
    for line in read(path).splitlines():
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    return found


def write_json(path: Path, value: object) -> None:
    """Write a JSON file that is never seen incomplete."""
    temporary = path.with_name(f".{path.name}-{os.getpid()}")
    temporary.write_text(json.dumps(value, indent=1) + "\n")
    temporary.replace(path)

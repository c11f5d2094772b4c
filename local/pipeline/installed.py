"""Lends what is installed in the checkout to a copy of its source, so that `make setup` there has nothing to do.

An environment is lent only if the copy names the very packages that the checkout has installed: the files that decide
it are the same, byte for byte. Otherwise it stays away and the build installs its own, as CodeBuild would.
"""

from __future__ import annotations

import filecmp
import shutil
from dataclasses import dataclass
from pathlib import Path

READY = ".ready"
_VENV_TEXT_LIMIT = 64 * 1024


@dataclass(frozen=True)
class Lent:
    """An installed environment of the checkout, and the files that decide what is in it."""

    folder: str
    decided_by: tuple[str, ...]
    line: str = ""
    """Only lines of those files that begin so decide."""


LENT = (
    Lent(".venv", ("pyproject.toml", "uv.lock")),
    Lent("node_modules", ("package.json", "package-lock.json")),
    Lent("local/.venv", ("local/pyproject.toml", "local/uv.lock")),
    Lent("local/node_modules", ("local/package.json", "local/package-lock.json")),
    Lent("parallelcluster/.venv", ("parallelcluster/pyproject.toml", "parallelcluster/uv.lock")),
    Lent(".tools", ("Makefile",), line="UV_VERSION"),
)


def lend(checkout: Path, copy: Path) -> list[str]:
    """Lend what fits; the names of the folders."""
    done = []
    for lent in LENT:
        if not _fits(checkout, copy, lent):
            continue
        source, target = checkout / lent.folder, copy / lent.folder
        if (source / "pyvenv.cfg").is_file() and list(source.glob("lib/*/site-packages/*.pth")):
            _venv(source, target, checkout, copy)
        else:
            target.symlink_to(source, target_is_directory=True)
        # Or make would take the files of the copy, written just now, for newer than what is installed.
        for name in lent.decided_by:
            if not lent.line:
                shutil.copystat(checkout / name, copy / name)
        done.append(lent.folder)
    return done


def _fits(checkout: Path, copy: Path, lent: Lent) -> bool:
    source, target = checkout / lent.folder, copy / lent.folder
    if not source.is_dir() or target.exists() or not target.parent.is_dir():
        return False
    ready = source / READY
    for name in lent.decided_by:
        here, there = checkout / name, copy / name
        if not (here.is_file() and there.is_file() and _same(here, there, lent.line)):
            return False
        if ready.is_file() and here.stat().st_mtime > ready.stat().st_mtime:
            return False
    return True


def _same(here: Path, there: Path, line: str) -> bool:
    if not line:
        return filecmp.cmp(here, there, shallow=False)
    found = [[text for text in path.read_text().splitlines() if text.startswith(line)] for path in (here, there)]
    return found[0] == found[1]


def _venv(source: Path, target: Path, checkout: Path, copy: Path) -> None:
    """A virtual environment with the packages of another one, but with the code of the copy.

    The project itself is installed by paths into the checkout, in .pth files, and programs name its interpreter: both
    are written anew. Everything else is linked.
    """
    for folder in sorted(path for path in source.rglob("*") if path.parent == source):
        if folder.name == "bin":
            _programs(folder, target / "bin", source, target)
        elif folder.name == "lib":
            for packages in folder.glob("*/site-packages"):
                _packages(packages, target / packages.relative_to(source), checkout, copy)
        else:
            target.mkdir(parents=True, exist_ok=True)
            if folder.is_file():
                shutil.copy2(folder, target / folder.name)
            else:
                (target / folder.name).symlink_to(folder.resolve())


def _packages(source: Path, target: Path, checkout: Path, copy: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        if path.suffix == ".pth":
            (target / path.name).write_text(path.read_text().replace(str(checkout), str(copy)))
        else:
            (target / path.name).symlink_to(path)


def _programs(source: Path, target: Path, old: Path, new: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        copy = target / path.name
        if path.is_symlink():
            # bin/python: a link to the interpreter, which finds its environment by where the link is.
            copy.symlink_to(path.readlink())
            continue
        content = path.read_bytes()
        if len(content) < _VENV_TEXT_LIMIT and content.startswith(b"#!"):
            copy.write_bytes(content.replace(str(old).encode(), str(new).encode()))
            copy.chmod(path.stat().st_mode)
        else:
            copy.symlink_to(path)

"""Checkpoints that are complete or absent: folders with a manifest, renamed into place when complete.

    <checkpoints>/step-00000100/manifest.json    format, step, final, and the files with bytes and SHA-256
    <checkpoints>/.partial-step-00000100-<owner> being written, or interrupted

A writer fills the hidden folder, syncs its files, writes and syncs the manifest, and renames the folder. A power loss
at any moment leaves a complete checkpoint or a hidden folder that readers ignore.

The standard library only, Python 3.9 or later: programs in containers import it, jobs on the host call it.

    python3 checkpoint.py newest FOLDER [--style STYLE]   prints "STEP<tab>PATH<tab>final|intermediate"
    python3 checkpoint.py verify CHECKPOINT               reads every file and compares its SHA-256
    python3 checkpoint.py discard FOLDER --owner OWNER    removes OWNER's incomplete checkpoints

Exit codes: 0 done; 1 no complete checkpoint, or verification failed; 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FORMAT = 1
MANIFEST = "manifest.json"
STYLES = ("manifest", "deepspeed", "megatron")
_OWNER = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_CHUNK = 8 * 1024 * 1024

# bytes and SHA-256 of a file, by its path below the checkpoint's folder
Files = dict[str, tuple[int, str]]


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint. `final` means that the run ended with it."""

    path: Path
    step: int
    final: bool
    files: Files


def name_of(step: int) -> str:
    """Folder name of a step's checkpoint."""
    return f"step-{step:08d}"


def partial(folder: Path, step: int, owner: str) -> Path:
    """The hidden folder in which `owner` (a job's id) prepares a checkpoint, the same on all ranks."""
    _check_owner(owner)
    return folder / f".partial-{name_of(step)}-{owner}"


def _check_owner(owner: str) -> None:
    if not _OWNER.fullmatch(owner):
        raise ValueError(f"'{owner}' is not an owner: give letters, digits, '.', '_' and '-', at most 64")


def sync_and_hash(path: Path) -> tuple[int, str]:
    """Sync a written file to storage, and return its bytes and SHA-256."""
    digest = hashlib.sha256()
    size = 0
    with path.open("rb") as file:
        os.fsync(file.fileno())
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return size, digest.hexdigest()


def publish(prepared: Path, target: Path, files: Files, *, step: int, final: bool) -> Checkpoint:
    """Turn a prepared folder into a checkpoint. One process calls this after all files are written and hashed.

    A complete checkpoint of that name is kept; an incomplete one is renamed to a hidden name.

    Raises:
        ValueError: the folder's files are not `files`.
    """
    there = {path.relative_to(prepared).as_posix() for path in prepared.rglob("*") if path.is_file()}
    if there != set(files):
        raise ValueError(f"{prepared} has {sorted(there)}, but {sorted(files)} were hashed")
    manifest = {
        "format": FORMAT,
        "step": step,
        "final": final,
        "files": {name: {"bytes": size, "sha256": digest} for name, (size, digest) in sorted(files.items())},
    }
    temporary = prepared / f".{MANIFEST}"
    with temporary.open("w") as file:
        json.dump(manifest, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(prepared / MANIFEST)
    _sync_folder(prepared)
    if target.exists():
        existing = read(target)
        if existing is not None and existing.final >= final:
            shutil.rmtree(prepared)
            return existing
        target.rename(target.with_name(f".replaced-{target.name}-{os.getpid()}"))
    prepared.rename(target)
    _sync_folder(target.parent)
    return Checkpoint(target, step, final, files)


def read(path: Path) -> Checkpoint | None:
    """The checkpoint in a folder; None without a manifest, or if a file is missing or has another size."""
    try:
        manifest = json.loads((path / MANIFEST).read_text())
        if manifest["format"] != FORMAT:
            return None
        step, final = int(manifest["step"]), bool(manifest["final"])
        files = {str(name): (int(one["bytes"]), str(one["sha256"])) for name, one in manifest["files"].items()}
        for name, (size, _) in files.items():
            if (path / name).stat().st_size != size:
                return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return Checkpoint(path, step, final, files)


def complete(folder: Path) -> Iterator[Checkpoint]:
    """The complete checkpoints of a folder, newest first."""
    for path in sorted(folder.glob("step-" + "[0-9]" * 8), reverse=True):
        checkpoint = read(path)
        if checkpoint is not None and name_of(checkpoint.step) == path.name:
            yield checkpoint


def damaged(checkpoint: Checkpoint, *, share: int = 0, shares: int = 1) -> list[str]:
    """Files whose content has changed. With `shares` processes, each reads every `shares`-th file."""

    def intact(name: str) -> bool:
        try:
            return sync_and_hash(checkpoint.path / name) == checkpoint.files[name]
        except OSError:
            return False

    return [name for name in sorted(checkpoint.files)[share::shares] if not intact(name)]


def prune(folder: Path, keep: int) -> list[Path]:
    """Remove all but the newest `keep` (at least 1) complete checkpoints; final ones stay. Returns those removed."""
    if keep < 1:
        raise ValueError(f"keep {keep} checkpoints: at least 1")
    removed = []
    for checkpoint in list(complete(folder))[keep:]:
        if not checkpoint.final:
            # Hidden by a rename, so that readers never see an incomplete checkpoint.
            hidden = checkpoint.path.with_name(f".removed-{checkpoint.path.name}-{os.getpid()}")
            checkpoint.path.rename(hidden)
            shutil.rmtree(hidden, ignore_errors=True)
            removed.append(checkpoint.path)
    return removed


def discard(folder: Path, owner: str) -> list[Path]:
    """Remove the incomplete checkpoints of `owner`. Returns those removed."""
    _check_owner(owner)
    found = [path for path in folder.glob(".partial-step-" + "[0-9]" * 8 + f"-{owner}") if not path.is_symlink()]
    for path in found:
        shutil.rmtree(path)
    return found


def newest(folder: Path, style: str) -> Checkpoint | None:
    """The newest complete checkpoint of a folder, which need not exist.

    Args:
        folder: where a run writes its checkpoints.
        style: `manifest`, ours; `deepspeed`, whose file `latest` names the folder; `megatron`, whose file
            `latest_checkpointed_iteration.txt` has the iteration. Both write these files last, and have no final
            checkpoint and no checksums.
    """
    if style == "manifest":
        return next(iter(complete(folder)), None)
    try:
        if style == "deepspeed":
            tag = (folder / "latest").read_text().strip()
            digits = re.search(r"(\d+)$", tag)
            path, step = folder / tag, int(digits.group(1)) if digits else 0
        else:
            text = (folder / "latest_checkpointed_iteration.txt").read_text().strip()
            path = folder / ("release" if text == "release" else f"iter_{int(text):07d}")
            step = 0 if text == "release" else int(text)
    except (OSError, ValueError):
        return None
    return Checkpoint(path, step, final=False, files={}) if path.is_dir() and any(path.iterdir()) else None


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def main(arguments: list[str]) -> int:
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="checkpoint.py", description="Find, verify and remove checkpoints.")
    commands = parser.add_subparsers(dest="command", required=True)
    finder = commands.add_parser("newest", help="print step, path and kind of the newest complete checkpoint")
    finder.add_argument("folder", type=Path)
    finder.add_argument("--style", choices=STYLES, default="manifest")
    verifier = commands.add_parser("verify", help="read every file of one checkpoint")
    verifier.add_argument("checkpoint", type=Path)
    tidier = commands.add_parser("discard", help="remove an owner's incomplete checkpoints")
    tidier.add_argument("folder", type=Path)
    tidier.add_argument("--owner", required=True)
    options = parser.parse_args(arguments)
    if options.command == "newest":
        found = newest(options.folder, options.style)
        if found is None:
            return 1
        print(f"{found.step}\t{found.path}\t{'final' if found.final else 'intermediate'}")
        return 0
    if options.command == "verify":
        checkpoint = read(options.checkpoint)
        bad = damaged(checkpoint) if checkpoint else ["its manifest or files"]
        if bad:
            print(f"checkpoint.py: {options.checkpoint} is damaged: {', '.join(bad)}", file=sys.stderr)
        return int(bool(bad))
    try:
        for path in discard(options.folder, options.owner):
            print(f"removed {path}")
    except ValueError as problem:
        parser.error(str(problem))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

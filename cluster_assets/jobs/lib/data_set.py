"""data_set.py: data sets on the cluster's file systems, with the manifest of `trainyard data push` or of token shards.

    python3 data_set.py verify FOLDER [--share I/N]    loads a data set from S3 and compares each file with the manifest
    python3 data_set.py load FOLDER                    loads it only, and prints the name that its copies must have
    python3 data_set.py stage FOLDER TARGET            copies it to a local disk, each file compared
    python3 data_set.py sweep FOLDER --days N          lists old temporary files; --delete removes them

FSx for Lustre imports names at once and contents when a file is first read. `lfs hsm_restore` asks for many contents at
once. The standard library has no CRC64NVME, so files are compared by the manifest's SHA-256.

The standard library only, Python 3.9 or later. Exit codes: 0 done; 1 something differs; 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

MANIFEST = ".trainyard-dataset.json"
FORMAT = 1
SHARDS, DTYPES = "manifest.json", {"uint16": 2, "uint32": 4}
"""Of training/token_shards.py: data-prepare.sbatch writes it."""
_STAGING = ".trainyard-staging"
_FULL = (errno.ENOSPC, errno.EDQUOT)
_CHUNK = 8 * 1024 * 1024
_BATCH = 64
_POLL_S = 2.0
_STATE = re.compile(r"^(?P<path>.+): \((?P<flags>0x[0-9a-f]+)\)")
_RELEASED, _LOST = 0x4, 0x40
"""Of `lfs hsm_state`. Source: Lustre 2.15, include/uapi/linux/lustre/lustre_user.h, enum hsm_states."""
_OLD_FILE = re.compile(r".+\.trainyard-(part|staging)")
_OLD_FOLDER = re.compile(r"\.(partial|removed|replaced)-step-\d{8}(-[\w.-]+)?|\.tmp-job-\d+")
"""Of `trainyard data pull` and `stage`; of training/checkpoint.py and train-model.sbatch."""

Files = dict[str, tuple[int, str]]
"""Bytes and SHA-256 by path below the data set's folder."""


class Failed(Exception):
    """What is wrong and what to do."""


def read_manifest(folder: Path, wait: float) -> tuple[Files, str]:
    """The files of a data set and the name of its copies; waits for the manifest, which S3 gets last."""
    deadline = time.monotonic() + wait
    path = folder / MANIFEST
    while not path.is_file():
        if time.monotonic() >= deadline:
            if (folder / SHARDS).is_file():
                path = folder / SHARDS
                break
            found = "the folder does not exist"
            if folder.is_dir():
                names = sorted(one.name for one in folder.iterdir())[:10]
                found = f"the folder contains {', '.join(names) or 'no files'}"
            raise Failed(
                f"{folder} is not a data set: {found}, and no {MANIFEST} after {wait:g} s. Push it: trainyard data push"
                ". If it is in S3: see whether the association imports: trainyard status"
            )
        time.sleep(min(_POLL_S, wait))
    text = path.read_bytes()
    digest = hashlib.sha256(text).hexdigest()
    try:
        found = json.loads(text)
        if found["format"] != FORMAT:
            raise Failed(f"{path} has format {found['format']!r}; these scripts read {FORMAT}")
        if path.name == SHARDS:
            width, shards = DTYPES[found["dtype"]], found["shards"]
            files = {str(one["file"]): (int(one["tokens"]) * width, str(one["sha256"])) for one in shards}
            files[SHARDS] = (len(text), digest)
        else:
            files = {str(name): (int(one["bytes"]), str(one["sha256"])) for name, one in found["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise Failed(
            f"{path} is not the manifest of a data set: {problem!r}. Push the data set again, with --replace"
        ) from problem
    if outside := [name for name in files if Path(name).is_absolute() or ".." in Path(name).parts]:
        raise Failed(f"{path} names a file outside of its folder: {outside[0]}")
    return files, f"{folder.name}-{digest[:12]}"


def states(paths: Sequence[Path]) -> dict[Path, int]:
    """The flags of `lfs hsm_state` of files on Lustre; none elsewhere."""
    found: dict[Path, int] = {}
    for start in range(0, len(paths), _BATCH):
        batch = [str(path) for path in paths[start : start + _BATCH]]
        done = subprocess.run(["lfs", "hsm_state", *batch], capture_output=True, text=True, check=False)
        for line in done.stdout.splitlines():
            if match := _STATE.match(line):
                found[Path(match["path"])] = int(match["flags"], 16)
    return found


def restore(paths: Sequence[Path], limit: float) -> None:
    """Load files whose contents are only in S3, and wait for them."""
    if not shutil.which("lfs"):
        return
    known = states(paths)
    if lost := [path for path, flags in known.items() if flags & _LOST]:
        raise Failed(f"Lustre has lost the S3 copy of {lost[0]} (and {len(lost) - 1} more). Push the data set again")
    waiting = [path for path, flags in known.items() if flags & _RELEASED]
    log(f"{len(waiting)} of {len(paths)} files are only in S3: loading them")
    for start in range(0, len(waiting), _BATCH):
        batch = [str(path) for path in waiting[start : start + _BATCH]]
        done = subprocess.run(["lfs", "hsm_restore", *batch], capture_output=True, text=True, check=False)
        if done.returncode:
            # Reading loads a file too, one by one.
            log(f"WARNING: lfs hsm_restore: {done.stderr.strip()[-200:]}; the files are loaded when they are read")
            return
    deadline, shown = time.monotonic() + limit, 0.0
    while waiting := [path for path, flags in states(waiting).items() if flags & _RELEASED]:
        if time.monotonic() >= deadline:
            raise Failed(
                f"{len(waiting)} files are not loaded after {limit:g} s, for example {waiting[0]}. Those that are"
                " loaded stay: run it again, or give a longer --limit. FSx logs errors of imports in /aws/fsx/"
            )
        if time.monotonic() - shown > 30:
            shown = time.monotonic()
            log(f"{len(waiting)} files to go")
        time.sleep(_POLL_S)


def copy_and_hash(source: Path, target: Path | None) -> tuple[int, str]:
    """Bytes and SHA-256 of a file, which is copied to `target` on the way."""
    digest, size = hashlib.sha256(), 0
    with source.open("rb") as file, (target or Path(os.devnull)).open("wb") as out:
        while data := file.read(_CHUNK):
            digest.update(data)
            size += len(data)
            if target:
                out.write(data)
    return size, digest.hexdigest()


def check(folder: Path, files: Files, procs: int, target: Path | None = None) -> list[str]:
    """Read files, copy them to `target` if given, and return what differs from the manifest."""

    def one(name: str) -> str:
        place = target / name if target else None
        if (
            place
            and place.is_file()
            and place.stat().st_size == files[name][0]
            and copy_and_hash(place, None) == files[name]
        ):
            return ""
        staging = place.with_name(place.name + _STAGING) if place else None
        if staging:
            staging.parent.mkdir(parents=True, exist_ok=True)
        try:
            found = copy_and_hash(folder / name, staging)
        except FileNotFoundError:
            return f"{name}: missing"
        except OSError as problem:
            if problem.errno in _FULL:
                raise
            return f"{name}: {problem.strerror}"
        if found != files[name]:
            if staging:
                staging.unlink()
            return f"{name}: {found[0]} bytes with SHA-256 {found[1]} instead of {files[name][0]} with {files[name][1]}"
        if staging and place:
            staging.replace(place)
        return ""

    with ThreadPoolExecutor(procs) as pool:
        return [line for line in pool.map(one, files) if line]


def verify(options: argparse.Namespace) -> list[str]:
    """Load and compare a share of a data set."""
    number, shares = options.share
    files, _ = read_manifest(options.folder, options.wait)
    mine = {name: files[name] for name in sorted(files)[number::shares]}
    restore([options.folder / name for name in mine], options.limit)
    begun = time.monotonic()
    wrong = check(options.folder, mine, options.procs)
    report(len(mine), sum(size for size, _ in mine.values()), time.monotonic() - begun, f"in {options.folder} compared")
    return wrong


def load(options: argparse.Namespace) -> list[str]:
    """Load a data set and print the name of its copies."""
    files, copy = read_manifest(options.folder, options.wait)
    restore([options.folder / name for name in files], options.limit)
    print(copy)
    return []


def stage(options: argparse.Namespace) -> list[str]:
    """Copy a data set to a local disk; several jobs of a node wait for one another."""
    files, copy = read_manifest(options.folder, options.wait)
    if options.target.name != copy:
        raise Failed(
            f"{options.target} is not the name of a copy of {options.folder}, which is {copy}. If the data set was "
            "replaced meanwhile, run the job again"
        )
    options.target.mkdir(parents=True, exist_ok=True)
    if options.target.parent.stat().st_uid != os.getuid():
        raise Failed(f"{options.target.parent} belongs to another user, who could change the copy: have it removed")
    with (options.target / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        there = sum(size for name, (size, _) in files.items() if (options.target / name).is_file())
        needed, free = sum(size for size, _ in files.values()) - there, shutil.disk_usage(options.target).free
        if free < needed:
            raise Failed(
                f"{options.target} has {free / 1e9:.1f} GB free, and {needed / 1e9:.1f} GB are missing. Remove what is "
                "not needed there, or train from Lustre: leave out --stage"
            )
        begun = time.monotonic()
        wrong = check(options.folder, files, options.procs, options.target)
        if not wrong and SHARDS not in files:
            shutil.copyfile(options.folder / MANIFEST, options.target / MANIFEST)
    report(len(files), needed, time.monotonic() - begun, f"copied to {options.target}")
    return wrong


def sweep(options: argparse.Namespace) -> list[str]:
    """List temporary files and folders whose newest file is old and whose job has ended; --delete removes them."""
    if not shutil.which("squeue"):
        raise Failed("no squeue in PATH, so it is not known which files are of running jobs. Run this on a node")
    asked = subprocess.run(["squeue", "--noheader", "--format=%A"], capture_output=True, text=True, check=False)
    if asked.returncode:
        raise Failed(
            f"squeue does not answer, so it is not known which files are of running jobs: {asked.stderr.strip()}"
        )
    jobs, before, found = set(asked.stdout.split()), time.time() - options.days * 86400, 0
    for root, folders, names in os.walk(options.folder):
        old = [Path(root, one) for one in sorted(names) if _OLD_FILE.fullmatch(one)]
        old += [Path(root, one) for one in sorted(folders) if _OLD_FOLDER.fullmatch(one)]
        folders[:] = [one for one in folders if not _OLD_FOLDER.fullmatch(one)]
        for path in old:
            if path.is_symlink() or jobs & set(re.split(r"\D", path.name)):
                continue
            try:
                inside = [one.lstat() for one in (path, *path.rglob("*"))]
                if max(one.st_mtime for one in inside) >= before or os.getuid() not in (0, inside[0].st_uid):
                    continue
                if options.delete:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            except FileNotFoundError:  # a job published or removed it meanwhile
                continue
            found += 1
            print(f"{path}: {sum(one.st_size for one in inside if stat.S_ISREG(one.st_mode))} bytes", flush=True)
    log(f"{found} older than {options.days} days {'removed' if options.delete else '(nothing removed: --delete does)'}")
    return []


def report(count: int, size: int, seconds: float, what: str) -> None:
    log(f"{count} files, {size / 1e9:.3f} GB {what} in {seconds:.1f} s")


def log(text: str) -> None:
    print(f"data_set.py: {os.uname().nodename}: {text}", file=sys.stderr, flush=True)


def _days(text: str) -> int:
    if not re.fullmatch(r"\d{1,5}", text) or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: whole days, at least 1")
    return int(text)


def _share(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,5})/(\d{1,5})", text)
    if not match or int(match[1]) >= int(match[2]):
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: I/N with I from 0 to N - 1")
    return int(match[1]), int(match[2])


def main(arguments: list[str]) -> int:
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="data_set.py", description="Load, compare, stage and sweep data sets.")
    commands = parser.add_subparsers(dest="command", required=True)
    for run in (verify, load, stage, sweep):
        command = commands.add_parser(run.__name__, help=(run.__doc__ or "").splitlines()[0])
        command.set_defaults(run=run)
        command.add_argument("folder", type=Path)
        if run is stage:
            command.add_argument("target", type=Path)
        if run is sweep:
            command.add_argument("--days", type=_days, required=True)
            command.add_argument("--delete", action="store_true")
        else:
            command.add_argument("--procs", type=int, default=8)
            command.add_argument("--wait", type=float, default=0, help="seconds until the manifest must be there")
            command.add_argument("--limit", type=float, default=3600, help="seconds for loading from S3")
    commands.choices["verify"].add_argument(
        "--share", type=_share, default="0/1", help="I/N: every N-th file from number I"
    )
    options: Any = parser.parse_args(arguments)
    try:
        wrong = options.run(options)
    except Failed as problem:
        wrong = [str(problem)]
    except OSError as problem:
        advice = ". Make room, or leave out --stage" if problem.errno in _FULL else ""
        wrong = [f"{problem.filename or options.folder}: {problem.strerror}{advice}"]
    for line in wrong:
        log(f"FAILED: {line}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

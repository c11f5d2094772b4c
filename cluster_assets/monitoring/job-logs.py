#!/usr/bin/env python3
"""Copies what is new in outputs of jobs to a local folder, which the CloudWatch agent reads.

    job-logs.py --to FOLDER OUTPUTS_FOLDER...

Runs as root (steps/job-logs.sh), because users may deny others their outputs. Users can write to the folders with the
outputs, so a path there is never trusted: each part is opened without following links, and only a regular file that has
one name and does not belong to root is read, from the descriptor that was checked.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import stat
import sys
import time
from pathlib import Path
from urllib.parse import quote

OUTPUT = re.compile(r".*-\d+(_\d+)?\.out")
DAY_S = 24 * 3600
FILE_BYTES = 32 << 20
"""Of one output in a day; the rest stays on the file system."""
ALL_BYTES = 1 << 30
"""Of all outputs of a day, for the head node's root volume."""
ALL_FILES = 20_000
"""Outputs of a day: each is a file on the root volume, and a stream of the log group."""
READ_BYTES = 1 << 20
CLOSED = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # O_NONBLOCK: a FIFO must not hold this program


def folder(path: str) -> int:
    """A descriptor of a folder, none of whose parts is a symbolic link."""
    found = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    for part in path.strip("/").split("/"):
        above = found
        try:
            found = os.open(part, os.O_RDONLY | os.O_DIRECTORY | CLOSED, dir_fd=above)
        finally:
            os.close(above)
    return found


def accepted(status: os.stat_result) -> bool:
    """Whether it can be a job's output: not a link, a FIFO, a second name of another's file, or root's."""
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and status.st_uid != 0


def copy(parent: int, name: str, target: Path, place: list[int], room: int) -> int:
    """Append what is new; returns how many bytes. `place` (inode, bytes read) is also right after an error."""
    source = os.open(name, os.O_RDONLY | CLOSED, dir_fd=parent)
    try:
        status = os.fstat(source)
        if not accepted(status) or (room <= 0 and not target.exists()):
            return 0
        if place[0] != status.st_ino or place[1] > status.st_size:  # replaced or truncated
            place[:] = status.st_ino, 0
        started = place[1]
        append = os.open(target, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        with os.fdopen(append, "ab", buffering=0) as out:
            room = min(room, FILE_BYTES - out.tell())
            while (left := room - (place[1] - started)) > 0:
                data = os.pread(source, min(READ_BYTES, left), place[1])
                if not data:
                    break
                place[1] += out.write(data)
    finally:
        os.close(source)
    return place[1] - started


def run(folders: list[str], to: Path, now: float) -> None:
    """One round."""
    state_file = to / ".state.json"
    try:
        before = json.loads(state_file.read_text())
    except (OSError, ValueError):
        before = {}
    for old in to.glob("*.out"):
        if old.stat().st_mtime < now - DAY_S:
            old.unlink()
    # + is in no folder's name and in no quoted one: two outputs never share a stream.
    bases = {path: path.strip("/").replace("/", "+") for path in folders}
    # What cannot be read in this round keeps its place.
    after: dict[str, list[int]] = {
        key: place for key, place in before.items() if key.rpartition("+")[0] in bases.values() or (to / key).exists()
    }
    room = ALL_BYTES - sum(512 * file.stat().st_blocks for file in to.glob("*.out"))
    copies = {file.name for file in to.glob("*.out")}
    for path, base in bases.items():
        try:
            parent = folder(path)
        except OSError as error:
            print(f"{path}: {error}", file=sys.stderr)
            continue
        try:
            with os.scandir(parent) as entries:
                names = {
                    f"{base}+{quote(os.fsencode(entry.name))}": entry.name
                    for entry in entries
                    if OUTPUT.fullmatch(entry.name)
                }
            after = {key: place for key, place in after.items() if key in names or key.rpartition("+")[0] != base}
            for key, name in names.items():
                try:
                    status = os.stat(name, dir_fd=parent, follow_symlinks=False)
                    if accepted(status) and (key in before or status.st_mtime > now - DAY_S):
                        place = after.setdefault(key, [0, 0])
                        if place != [status.st_ino, status.st_size]:
                            may = room if key in copies or len(copies) < ALL_FILES else 0
                            room -= copy(parent, name, to / key, place, may)
                            copies.add(key)
                except OSError as error:
                    print(f"{path}/{name!r}: {error}", file=sys.stderr)
        except OSError as error:
            print(f"{path}: {error}", file=sys.stderr)
        finally:
            os.close(parent)
    if len(copies) > ALL_FILES or room <= 0:
        print(f"not all outputs are sent: {ALL_FILES} and {ALL_BYTES} bytes in a day at most", file=sys.stderr)
    written = state_file.with_suffix(".new")
    written.write_text(json.dumps(after))
    written.replace(state_file)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Copies outputs of jobs for the CloudWatch agent.")
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("folders", nargs="+")
    options = parser.parse_args()
    run(options.folders, options.to, time.time())


if __name__ == "__main__":
    main()

"""One operation at a time on an environment: a lock that the kernel releases when its holder ends, killed or not."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO

PRIVATE = 0o600
"""Mode of files with what only their owner needs: state, logs, signed URLs."""


def open_private(path: Path, mode: str) -> IO[str]:
    """Open a text file that only its owner may read, also one that an earlier version left readable by others."""

    def opener(name: str, flags: int) -> int:
        descriptor = os.open(name, flags, PRIVATE)
        os.fchmod(descriptor, PRIVATE)
        return descriptor

    return open(path, mode, encoding="utf-8", opener=opener)


class Held(Exception):
    """Another process holds the lock; the message names its process, command and start."""


@contextmanager
def hold(file: Path) -> Iterator[None]:
    """Hold the lock `file`, which is created and never removed: a removed one could be held twice.

    Raises:
        Held: another process holds it.
    """
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open_private(file, "a+") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            stream.seek(0)
            raise Held(stream.read().strip() or "a process that has just started") from error
        stream.truncate(0)
        command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])
        stream.write(f"process {os.getpid()} ({command}), since {datetime.now():%Y-%m-%d %H:%M:%S}\n")
        stream.flush()
        yield

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

from ops.problem import Problem


def open_private(path: Path, mode: str) -> IO[str]:
    """Open a text file and restrict it to its owner."""

    def opener(name: str, flags: int) -> int:
        descriptor = os.open(name, flags, 0o600)
        os.fchmod(descriptor, 0o600)
        return descriptor

    return open(path, mode, encoding="utf-8", opener=opener)


@contextmanager
def hold(state: Path) -> Iterator[None]:
    """Hold the lock of a state folder. Its file is never removed: a removed one could be held twice.

    Raises:
        Problem: another process holds it; the message names its id, command and start.
    """
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open_private(state / "lock", "a+") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            stream.seek(0)
            holder = stream.read().strip() or "a process that has just started"
            raise Problem(
                f"Another command is changing {state.name}: {holder}.\nWait until it ends, or end it."
            ) from error
        stream.truncate(0)
        command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])
        stream.write(f"process {os.getpid()} ({command}), since {datetime.now():%Y-%m-%d %H:%M:%S}")
        stream.flush()
        yield

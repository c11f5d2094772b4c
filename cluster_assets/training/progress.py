"""Reports a program's step to the job's watchdog (jobs/watchdog), which ends and requeues a job that hangs.

    import progress
    progress.report(step)        # after every step, on every rank; also during long pauses, with the same step

Writes $PROGRESS_DIR/<RANK> at most once a second, and does nothing without PROGRESS_DIR. A failed write never ends the
training. The standard library only, Python 3.9 or later.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

INTERVAL_S = 1.0

_written_at = 0.0


def report(step: int) -> None:
    """Report that this rank has finished a step."""
    global _written_at  # noqa: PLW0603 -- one per process, as the file
    folder = os.environ.get("PROGRESS_DIR")
    now = time.monotonic()
    if not folder or (_written_at and now - _written_at < INTERVAL_S):
        return
    _written_at = now
    rank = os.environ.get("RANK", "0")
    # Hidden until complete: the watchdog must never read half a number.
    temporary = Path(folder) / f".{rank}-{os.getpid()}"
    try:
        temporary.write_text(f"{step}\n")
        temporary.replace(Path(folder) / rank)
    except OSError:
        # A full or slow file system: the watchdog then sees no step.
        return

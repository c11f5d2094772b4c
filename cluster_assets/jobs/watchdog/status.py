"""Writes the progress of a training job for the head node's exporter (monitoring/slurm-exporter.py), every 15 s.

A JSON file, whose name has a random part, so that no other user can take it first: step, last_step_time (Unix time),
steps_per_second and ranks ({RANK: [STEP, NODE]}) from what the ranks report (training/progress.py); loss,
tokens_per_second and mfu from the last line of the job's metrics.jsonl. Without ranks, last_step_time is that of this
line, and before it that of the attempt's begin. What is not known is missing or null. The standard library only,
Python 3.9 or later.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import tempfile
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

from records import files, load, read, regular

INTERVAL_S = 15.0
TAIL = 4096


class Status(threading.Thread):
    """Writes the file until `end`. A thread of its own: the watchdog must not wait for this file system."""

    def __init__(self, folder: Path, target: Path, metrics: Path) -> None:
        super().__init__(daemon=True, name="status")
        self.folder, self.metrics = folder, metrics
        self.target = target.with_suffix(f".{secrets.token_hex(8)}.json")
        self.begun, self.ended = time.time(), threading.Event()
        self.nodes: dict[str, str] = {}
        self.steps: deque[tuple[float, int]] = deque(maxlen=9)  # two minutes

    def run(self) -> None:
        """Write again and again, and remove the file at the end; what fails is left out."""
        while True:
            with contextlib.suppress(Exception):  # such as a full file system: the job must go on
                self.write()
            if self.ended.wait(INTERVAL_S):
                break
        with contextlib.suppress(OSError):
            self.target.unlink()

    def end(self) -> None:
        """End the thread, unless its file system hangs."""
        self.ended.set()
        self.join(5)

    def write(self) -> None:
        """Write the file, which readers never see incomplete, in a folder where all users may write."""
        handle, temporary = tempfile.mkstemp(prefix=".", dir=self.target.parent)
        try:
            with os.fdopen(handle, "w") as file:
                json.dump(self.status(), file)
                os.fchmod(handle, 0o644)  # whatever the user's umask
            Path(temporary).replace(self.target)
        except BaseException:
            Path(temporary).unlink()
            raise

    def status(self) -> dict[str, Any]:
        """The content of the file."""
        ranks: dict[str, list[int | str]] = {}
        latest, step = 0.0, 0
        for path in files(self.folder / "progress"):
            text, about = read(path), regular(path)
            if text.isdigit() and about:
                ranks[path.name] = [int(text), self.node(path.name)]
                latest, step = max(latest, about.st_mtime), max(step, int(text))
        if not ranks:
            return {"last_step_time": self.begun, **self.reported()}  # a hang before the first step is one too
        now = time.monotonic()
        self.steps.append((now, step))
        then, first = self.steps[0]
        rate = (step - first) / (now - then) if now > then else None
        return {**self.reported(), "step": step, "last_step_time": latest, "steps_per_second": rate, "ranks": ranks}

    def node(self, rank: str) -> str:
        """Where a rank runs (rank.py); looked up once."""
        if rank not in self.nodes and (one := load(self.folder / "ranks" / rank)):
            self.nodes[rank] = one["node"]
        return self.nodes.get(rank, "")

    def reported(self) -> dict[str, Any]:
        """The figures of the last complete line of metrics.jsonl, if this attempt wrote it."""
        with contextlib.suppress(OSError, ValueError, IndexError, KeyError, TypeError), self.metrics.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
            line = json.loads(file.read().rpartition(b"\n")[0].rpartition(b"\n")[2])
            if line["time"] >= self.begun:
                found = {name: line.get(name) for name in ("step", "loss", "tokens_per_second", "mfu")}
                return {**found, "last_step_time": line["time"]}
        return {}

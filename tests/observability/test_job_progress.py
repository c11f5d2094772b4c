"""The file that a job's watchdog writes for the exporter."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from tests.jobs.conftest import JOBS

sys.path.insert(0, str(JOBS / "watchdog"))
import status as job_status
import watchdog


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An attempt of two ranks, of which one has a node."""
    for name in ("progress", "ranks", "nodes"):
        (tmp_path / "logs/watchdog/7.0" / name).mkdir(parents=True)
    (tmp_path / "logs/watchdog/7.0/ranks/0").write_text('{"node": "gpu-1", "pid": 1}')
    return tmp_path / "logs/watchdog/7.0"


def made(folder: Path) -> job_status.Status:
    (folder.parents[2] / "jobs").mkdir(exist_ok=True)
    return job_status.Status(folder, folder.parents[2] / "jobs" / "7.json", folder.parents[1] / "metrics.jsonl")


def step(folder: Path, rank: int, text: str) -> None:
    (folder / "progress" / str(rank)).write_text(text)


def test_steps_rates_and_ranks(folder: Path) -> None:
    one = made(folder)
    assert one.status() == {"last_step_time": one.begun}
    step(folder, 0, "5\n")
    step(folder, 1, "damaged")
    (folder / "progress" / ".0-77").write_text("99")
    found = one.status()
    assert (found["step"], found["steps_per_second"], found["ranks"]) == (5, None, {"0": [5, "gpu-1"]})
    assert abs(found["last_step_time"] - time.time()) < 600
    step(folder, 0, "9")
    step(folder, 1, "8")
    one.steps[0] = (time.monotonic() - 100, 5)
    found = one.status()
    assert found["ranks"] == {"0": [9, "gpu-1"], "1": [8, ""]}
    assert 0.02 < found["steps_per_second"] <= 0.04  # 4 steps in 100 s or a little more
    for _ in range(20):
        found = one.status()
    assert found["steps_per_second"] == 0  # a job that hangs


def test_figures_of_this_attempt_only(folder: Path) -> None:
    one = made(folder)
    metrics = folder.parents[1] / "metrics.jsonl"
    line = {"step": 3, "loss": 2.5, "tokens_per_second": 10.0, "mfu": None, "memory_gib": 1}
    metrics.write_text(json.dumps({**line, "time": one.begun - 5}) + "\n")
    assert one.status() == {"last_step_time": one.begun}
    with metrics.open("a") as file:
        file.write("x" * 10_000 + "\n" + json.dumps({**line, "time": one.begun + 5}) + '\n{"step": 4, "lo')
    figures = {"step": 3, "loss": 2.5, "tokens_per_second": 10.0, "mfu": None}
    assert one.status() == {**figures, "last_step_time": one.begun + 5}
    for bad in ("[]\n", "null\n", "{}\n", '{"time": "x"}\n', "\xff\n", ""):
        metrics.write_text(bad, "latin-1")
        assert one.status() == {"last_step_time": one.begun}


def test_the_file_is_complete_readable_and_of_nobody_elses_making(folder: Path) -> None:
    one = made(folder)
    step(folder, 0, "1")
    before = os.umask(0o077)
    try:
        one.write()
    finally:
        os.umask(before)
    assert json.loads(one.target.read_text())["step"] == 1
    assert one.target.stat().st_mode & 0o777 == 0o644
    assert one.target.name.startswith("7.") and one.target.name != made(folder).target.name  # nobody can guess it
    one.target.unlink()
    one.target.mkdir()
    with pytest.raises(OSError, match="7"):
        one.write()
    assert [path.name for path in one.target.parent.iterdir()] == [one.target.name]


@pytest.mark.parametrize("there", [True, False])
def test_the_watchdog_starts_and_removes_it(folder: Path, there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that cannot be written changes nothing."""
    one, seen = made(folder), []
    if not there:
        one.target.parent.rmdir()
    step(folder, 0, "6")

    def alive(_pid: int) -> bool:
        """Until the file is there, if it can be."""
        seen.append(bool([*one.target.parent.glob("7.*.json")]))
        return not seen[-1] and there

    monkeypatch.setattr(watchdog, "alive", alive)
    monkeypatch.setattr(time, "sleep", lambda _s, pause=time.sleep: pause(0.02))
    words = ["watch", str(folder), "--pid", "1", "--nodes", "gpu-1", "--job", "7", "--silence", "60", "--stall", "0"]
    history = str(folder.parent / "7.jsonl")
    assert watchdog.main([*words, "--start", "600", "--history", history, "--status", str(one.target)]) == 0
    assert seen[-1] is there and not [*one.target.parent.glob("7.*")]

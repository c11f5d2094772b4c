"""The watchdog's judgement: what is a hang, who is at fault, and whether another attempt is worth it."""

from __future__ import annotations

import argparse
import errno
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.conftest import JOBS, TRAINING, load_module

sys.path.insert(0, str(JOBS / "watchdog"))
import attempts
import flight_recorder
import records
import watchdog

progress = load_module(TRAINING / "progress.py")


def dump(folder: Path, rank: int, *collectives: tuple[str, int, str]) -> None:
    """A flight recorder in PyTorch's form: group, number and state of each collective."""
    entries = [
        {
            "process_group": (group, f"group-{group}"), "collective_seq_id": number, "state": state,
            "profiling_name": "nccl:all_reduce", "retired": state == "completed", "is_p2p": False,
        }
        for group, number, state in collectives
    ]  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / str(rank)).write_bytes(pickle.dumps({"version": "2.10", "entries": entries}))


def test_the_flight_recorder_names_the_rank_that_the_others_wait_for(tmp_path: Path) -> None:
    """Rank 2 is late. Rank 3 waits for it in their own group, and so is missing in the group of all."""
    for rank in (0, 1):
        dump(tmp_path, rank, ("0", 6, "completed"), ("0", 7, "started"))
    dump(tmp_path, 2, ("0", 6, "completed"), ("1", 4, "completed"))
    dump(tmp_path, 3, ("0", 6, "completed"), ("1", 5, "scheduled"))
    lines, ranks = flight_recorder.late(tmp_path)
    assert lines == [
        "nccl:all_reduce number 7 of group-0: ranks 0-1 wait, ranks 2-3 did not arrive",
        "nccl:all_reduce number 5 of group-1: ranks 3 wait, ranks 2 did not arrive",
    ]
    assert ranks == [2]


def test_a_real_flight_recorder_of_nccl_names_the_rank_that_did_not_arrive() -> None:
    """Dumps of PyTorch 2.11 with NCCL 2.28.9 on two H100 GPUs, 25 November 2026; frames without their folders."""
    lines, ranks = flight_recorder.late(Path(__file__).parent / "flight-nccl-2.28.9")
    assert lines == ["nccl:all_reduce number 3 of default_pg: ranks 0 wait, ranks 1 did not arrive"]
    assert ranks == [1]


def test_a_flight_recorder_is_data_and_not_code(tmp_path: Path) -> None:
    (tmp_path / "0").write_bytes(pickle.dumps({"entries": [os.system]}))
    (tmp_path / "1").write_bytes(b"cut off")
    (tmp_path / "2").write_bytes(pickle.dumps({"entries": [{"process_group": "0", "collective_seq_id": 3}]}))
    assert flight_recorder.late(tmp_path) == ([], [])
    assert flight_recorder.late(tmp_path / "absent") == ([], [])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An attempt of four ranks on two nodes at step 40."""
    for name in ("progress", "nodes", "ranks", "stacks", "flight", "failures", "nccl"):
        (tmp_path / "7.0" / name).mkdir(parents=True)
    for rank in range(4):
        about = {"node": f"gpu-{rank // 2}", "pid": 10**7 + rank}
        (tmp_path / "7.0" / "ranks" / str(rank)).write_text(json.dumps(about))
        (tmp_path / "7.0" / "progress" / str(rank)).write_text("40")
    return tmp_path / "7.0"


def watch(folder: Path, **options: object) -> watchdog.Watch:
    """A watchdog whose nodes have shown life."""
    given = {"folder": folder, "nodes": "gpu-0,gpu-1", "history": folder.parent / "7.jsonl", "output": [folder / "out"]}
    made = watchdog.Watch(argparse.Namespace(**{**given, "silence": 30, "stall": 100, "start": 500, **options}))
    for node in ("gpu-0", "gpu-1"):
        (folder / "nodes" / node).write_text("running 0 1")
    assert made.fault() is None
    return made


def later(made: watchdog.Watch, seconds: float, *clocks: watchdog.Clock) -> None:
    """Let the clocks go on: these, or all."""
    for clock in clocks or (*made.nodes.values(), made.steps, made.output):
        clock.changed -= seconds


def test_a_node_that_shows_no_life_is_named(folder: Path) -> None:
    made = watch(folder)
    later(made, 31)
    (folder / "nodes" / "gpu-0").write_text("running 0 2")
    assert made.fault() == {"kind": "silence", "text": "no heartbeat from gpu-1 for 30 s", "nodes": ["gpu-1"]}
    made.reset()
    assert made.fault() is None


def test_a_node_whose_step_daemon_is_gone_is_named_at_once(folder: Path) -> None:
    made = watch(folder)
    (folder / "nodes" / "gpu-1").write_text("orphaned\n")
    found = made.fault()
    assert found == {"kind": "daemon", "text": "no step daemon on gpu-1", "nodes": ["gpu-1"]}
    orphaned = {"state": "orphaned", "daemon": False, "ranks": {"2": "gone", "3": "gone"}}
    for answer in (orphaned, {"error": "no answer: slurmd died, too", "down": False}):
        verdict = watchdog.judge(found, {**ANSWERS, "gpu-1": answer}, folder)
        assert (verdict["nodes"], verdict["certain"]) == ({"gpu-1": "its step daemon is gone"}, True)


@pytest.mark.parametrize("fails", ["examine", "write_json"])
def test_an_attempt_ends_even_if_nothing_can_be_examined_or_written(
    folder: Path, fails: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def cancel(words: list[str], _seconds: float) -> tuple[int, str]:
        commands.append(words)
        launcher.kill()
        launcher.wait()
        return 0, ""

    commands: list[list[str]] = []
    monkeypatch.setattr(watchdog, "examine", lambda *_: ANSWERS)
    monkeypatch.setattr(watchdog, fails, full)
    monkeypatch.setattr(watchdog, "run", cancel)
    with subprocess.Popen(["sleep", "600"]) as launcher:
        made = watch(folder, pid=launcher.pid, job="7")
        code = made.end({"kind": "silence", "text": "no heartbeat", "nodes": ["gpu-1"]})
    assert commands == [["scancel", "7.0"]]
    assert "No space left on device" in capsys.readouterr().err
    if fails == "examine":
        assert code == 0 and json.loads((folder / "verdict.json").read_text())["nodes"] == {"gpu-1": "no heartbeat"}
    else:
        assert code == attempts.NO_VERDICT
        assert conclude(folder, status=code) == 0
        assert "could not write why, after step 40" in capsys.readouterr().out


def test_a_launcher_that_outlives_its_nodes(folder: Path) -> None:
    made = watch(folder)
    for node in ("gpu-0", "gpu-1"):
        (folder / "nodes" / node).write_text("ended 0")
    assert made.fault() is None
    later(made, 31)
    found = made.fault()
    assert found and found["kind"] == "srun"


def test_the_limit_of_a_stall_grows_with_pauses_and_after_stalls_without_a_cause(folder: Path) -> None:
    made = watch(folder)
    later(made, 60, made.steps)
    (folder / "progress" / "3").write_text("41")
    assert made.fault() is None
    later(made, 200, made.steps)
    assert made.fault() is None, "four times 60 s"
    later(made, 50, made.steps)
    found = made.fault()
    assert found and re.fullmatch(r"no step for 2\d\d s \(limit 2\d\d s\)", found["text"])
    stall = {"kind": "stall", "nodes": {}, "certain": False}
    (folder.parent / "7.jsonl").write_text(json.dumps(stall) + "\n")
    again = watch(folder)
    later(again, 150, again.steps)
    assert again.fault() is None, "twice 100 s"


def test_before_the_first_step_output_counts(folder: Path) -> None:
    for file in (folder / "progress").iterdir():
        file.unlink()
    made = watch(folder, output=[Path(os.devnull), folder / "absent"])
    later(made, 9999, made.output)
    assert made.fault() is None, "nothing to judge by"
    (folder / "out").write_text("start\n")
    made = watch(folder, output=[Path(os.devnull), folder / "out"])
    later(made, 450, made.output)
    (folder / "out").write_text("compiling\n")
    assert made.fault() is None
    later(made, 4 * 450 + 60, made.output)
    found = made.fault()
    assert found and "no step and no output" in found["text"]


class Deputy:
    """A deputy whose time passes only in its reads and pauses."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.options = argparse.Namespace(folder=folder, silence=30, nodes="gpu-0", job="7")
        self.now, self.calls = 0.0, list[list[str]]()
        monkeypatch.setattr(watchdog, "time", self)
        monkeypatch.setattr(watchdog, "read", self.read)
        monkeypatch.setattr(watchdog, "run", lambda words, _: self.calls.append(words))

    def watch(self, heartbeats: list[str], *, reads: dict[int, float], pauses: dict[int, float]) -> list[list[str]]:
        """The commands it runs when it reads these. A read, or the pause after it, takes the seconds given."""
        self.heartbeats, self.reads, self.pauses, self.number = heartbeats, reads, pauses, 0
        watchdog.deputy(self.options)
        return self.calls

    def read(self, _: Path) -> str:
        self.number += 1
        self.now += self.reads.get(self.number, 0)
        return self.heartbeats[self.number - 1]

    def sleep(self, seconds: float) -> None:
        self.now += self.pauses.get(self.number, seconds)

    def monotonic(self) -> float:
        return self.now


def test_the_deputy_requeues_a_job_whose_watchdog_is_silent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deputy = Deputy(folder, monkeypatch)
    assert deputy.watch(["", "77 1", "ended"], reads={}, pauses={}) == []
    assert deputy.watch(["77 1"] * 60 + ["ended"], reads={}, pauses={}) == [], "for 118 s"
    # The file system hangs during read 20, and the silence counts from then on.
    assert deputy.watch(["77 1"] * 100, reads={20: 300}, pauses={}) == [["scontrol", "requeue", "7"]]
    assert deputy.number == 80
    assert conclude(folder, status=None) == 0
    assert (folder.parent / "bad-nodes" / "gpu-0" / "7.0.json").exists()


@pytest.mark.parametrize(
    ("heartbeats", "reads", "pauses"),
    [
        pytest.param(["77 1", "77 1", "77 2"], {2: 300}, {}, id="its file system hung"),
        pytest.param(["77 1", "77 1", "77 2"], {}, {1: 300}, id="the job was suspended"),
        pytest.param(["77 1", *[""] * 150, "77 1", "77 2"], {}, {}, id="its file system failed"),
    ],
)
def test_the_deputy_does_not_count_time_in_which_it_could_not_read(
    folder: Path,
    heartbeats: list[str],
    reads: dict[int, float],
    pauses: dict[int, float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It first reads the old heartbeat again, then a new one: the watchdog is alive."""
    assert Deputy(folder, monkeypatch).watch([*heartbeats, "ended"], reads=reads, pauses=pauses) == []
    assert not (folder / "verdict.json").exists()


@pytest.mark.parametrize("slow", ["fault", "examine"])
def test_the_deputy_sees_life_however_long_the_watchdog_reads_and_examines(
    folder: Path, slow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heartbeats, until = list[str](), time.monotonic() + 10

    def see(where: str) -> None:
        """Wait until three heartbeats have come."""
        while where == slow and len(heartbeats) < 3 and time.monotonic() < until:
            if (text := records.read(folder / "nodes" / watchdog.HEARTBEAT)) and text not in heartbeats:
                heartbeats.append(text)
            time.sleep(0.05)

    def fault() -> dict[str, Any]:
        see("fault")
        return {"kind": "silence", "text": "no heartbeat", "nodes": ["gpu-1"]}

    def examine(*_: object) -> dict[str, dict[str, Any]]:
        see("examine")
        return ANSWERS

    def cancel(*_: object) -> tuple[int, str]:
        launcher.kill()
        launcher.wait()
        return 0, ""

    with subprocess.Popen(["sleep", "600"]) as launcher:
        made = watch(folder, silence=5, pid=launcher.pid, job="7")
        monkeypatch.setattr(made, "fault", fault)
        monkeypatch.setattr(watchdog, "examine", examine)
        monkeypatch.setattr(watchdog, "run", cancel)
        assert made.loop() == 0
    assert len(heartbeats) == 3


ANSWERS: dict[str, dict[str, Any]] = {
    "gpu-0": {"state": "running", "daemon": True, "ranks": {"0": "running", "1": "running"}},
    "gpu-1": {"state": "running", "daemon": True, "ranks": {"2": "running", "3": "running"}},
}


@pytest.mark.parametrize(
    ("answer", "nodes"),
    [
        ({"ranks": {"2": "stopped", "3": "running"}}, {"gpu-1": "rank 2: stopped"}),
        ({"daemon": False, "ranks": {"2": "gone", "3": "gone"}}, {"gpu-1": "its step daemon is gone"}),
        ({"state": "", "ranks": {}}, {"gpu-1": "its launcher did not start"}),
        ({"error": "no answer", "down": True}, {"gpu-1": "no answer"}),
        ({"error": "srun: not found", "down": False}, {}),
        ({}, {}),
    ],
)
def test_the_verdict_names_ranks_and_nodes(folder: Path, answer: dict[str, Any], nodes: dict[str, str]) -> None:
    found = {"kind": "stall", "text": "no step", "nodes": []}
    verdict = watchdog.judge(found, {**ANSWERS, "gpu-1": {**ANSWERS["gpu-1"], **answer}}, folder)
    assert (verdict["nodes"], verdict["step"]) == (nodes, 40)
    assert verdict["certain"] == bool(nodes)
    everywhere = {node: {**one, "ranks": dict.fromkeys(one["ranks"], "stopped")} for node, one in ANSWERS.items()}
    assert watchdog.judge(found, everywhere, folder)["nodes"] == {}, "both nodes: no one to exclude"


def test_one_sample_of_a_state_and_a_failure_of_srun_accuse_no_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = iter(["running", watchdog.BLOCKED, "gone", watchdog.BLOCKED])  # of two ranks, before and after
    monkeypatch.setattr(watchdog, "RANKS_S", 0)
    monkeypatch.setattr(watchdog, "state", lambda _: next(states))
    assert watchdog.inspect(folder, "gpu-1")["ranks"] == {"2": "gone", "3": watchdog.BLOCKED}
    for state, down in (("mixed", False), ("down", True), ("allocated*", True)):
        monkeypatch.setattr(watchdog, "run", lambda words, _, state=state: (words[0] == "srun", state))
        assert watchdog.examine(folder, ["gpu-1"])["gpu-1"]["down"] is down


def test_a_rank_that_others_wait_for_is_excluded_but_not_reported(folder: Path) -> None:
    for rank in range(4):
        dump(folder / "flight", rank, ("0", 6, "completed"), *([("0", 7, "started")] if rank != 3 else []))
    verdict = watchdog.judge({"kind": "stall", "text": "no step", "nodes": []}, ANSWERS, folder)
    assert (verdict["nodes"], verdict["certain"]) == ({"gpu-1": "rank 3: did not arrive at a collective"}, False)
    (folder / "verdict.json").write_text(json.dumps(verdict))
    assert conclude(folder) == 0
    assert not (folder.parent / "bad-nodes").exists()


def conclude(folder: Path, *, status: int | None = 1) -> int:
    """What the job asks after an attempt."""
    given = {"folder": folder, "history": folder.parent / "7.jsonl", "job": "7", "silence": 30, "attempts": 3}
    return attempts.conclude(argparse.Namespace(**given, status=status, reports=folder.parent / "bad-nodes"))


def test_attempts_are_recorded_and_end_where_they_get_no_further(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verdict = {"kind": "silence", "text": "no heartbeat", "nodes": {"gpu-1": "gone"}, "step": 40, "certain": True}
    (folder / "verdict.json").write_text(json.dumps(verdict))
    assert conclude(folder) == 0
    assert capsys.readouterr().out == "no heartbeat, after step 40\n"
    [report] = (folder.parent / "bad-nodes" / "gpu-1").iterdir()
    assert json.loads(report.read_text()).items() >= {"job": "7", "attempt": "7.0", "reason": "gone"}.items()
    assert conclude(folder) == 1, "once"
    for number, status in ((1, 0), (2, 0), (3, 1)):
        (folder / "concluded").unlink()
        folder = folder.rename(folder.with_name(f"7.{number}"))
        assert conclude(folder) == status
    assert "3 attempts in a row got no further" in capsys.readouterr().err


def test_a_failure_before_the_first_step_is_final_and_one_of_hardware_accuses_the_node(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    error = "AcceleratorError: CUDA error: uncorrectable ECC error encountered"
    (folder / "failures" / "2").write_text(json.dumps({"error": error, "time": 5}))
    (folder / "failures" / "0").write_text(json.dumps({"error": "DistBackendError: NCCL error", "time": 6}))
    (folder / "nccl" / "gpu-1.77").write_text("gpu-1:77:77 [0] NCCL WARN Call to recv failed\n")
    assert conclude(folder) == 0
    shown = capsys.readouterr()
    assert f"rank 2 on gpu-1 failed first: {error}" in shown.out and "NCCL WARN Call to recv" in shown.err
    assert (folder.parent / "bad-nodes" / "gpu-1").is_dir()
    for path in [folder / "concluded", *(folder / "progress").iterdir()]:
        path.unlink()
    assert conclude(folder) == 1


def test_an_error_that_a_program_can_cause_accuses_no_node(folder: Path) -> None:
    for error in ("CUDA error: unspecified launch failure", "bound to the NVLink port", "Bus error"):
        (folder / "failures" / "2").write_text(json.dumps({"error": error, "time": 5}))
        assert attempts.failure(folder, 1)["nodes"] == {}
    (folder / "ranks" / "2").unlink()
    (folder / "failures" / "2").write_text(json.dumps({"error": "uncorrectable ECC error", "time": 5}))
    assert attempts.failure(folder, 1)["nodes"] == {}, "no one knows the node"
    verdict = watchdog.judge(
        {"kind": "stall", "text": "no step", "nodes": []},
        {**ANSWERS, "gpu-1": {**ANSWERS["gpu-1"], "ranks": {"2": "stopped"}}}, folder,
    )  # fmt: skip
    assert verdict["nodes"] == {}


def test_a_damaged_history_and_an_unexpected_error_do_not_stop_the_job(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = folder.parent / "7.jsonl"
    history.write_text('{"kind": "stall", "no')
    assert conclude(folder) == 0
    assert [one["attempt"] for one in records.history(history)] == ["7.0"]
    history.write_text('{"kind": "stall"}\n')
    (folder / "concluded").unlink()
    words = ["conclude", str(folder.rename(folder.with_name("7.1"))), "--job=7", f"--history={history}", "--status=1"]
    assert attempts.main([*words, "--silence=30", "--attempts=3", f"--reports={folder}"]) == 3
    assert "WARNING: conclude: KeyError" in capsys.readouterr().err


def test_an_attempt_that_slurm_requeued_accuses_the_node_that_fell_silent_first(folder: Path) -> None:
    for node in ("gpu-0", "gpu-1"):
        (folder / "nodes" / node).write_text("running 0 1")
    os.utime(folder / "nodes" / "gpu-1", (time.time() - 100,) * 2)
    conclude(folder, status=None)
    assert list(records.history(folder.parent / "7.jsonl")[0]["nodes"]) == ["gpu-1"]


def test_no_more_nodes_are_excluded_than_the_partition_can_spare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(json.dumps({"nodes": {node: ""}}) + "\n" for node in ("gpu-1", "gpu-2", "gpu-3", "?"))
    (tmp_path / "7.jsonl").write_text(rows)
    states = "gpu-0 idle\ngpu-1 idle\ngpu-2 idle\ngpu-3 down*\ngpu-4 allocated"
    monkeypatch.setattr(attempts, "run", lambda *_: (0, states))
    for count, kept in ((2, "gpu-3,gpu-2,gpu-1"), (3, "gpu-3,gpu-2"), (5, "gpu-3")):
        attempts.exclude(argparse.Namespace(history=tmp_path / "7.jsonl", partition="gpu", count=count))
        assert capsys.readouterr().out == f"{kept}\n"
    monkeypatch.setattr(attempts, "run", lambda *_: (1, "Unable to contact slurm controller"))
    attempts.exclude(argparse.Namespace(history=tmp_path / "7.jsonl", partition="gpu", count=2))
    shown = capsys.readouterr()
    assert shown.out == "" and "no node is excluded, because sinfo ended with 1" in shown.err


def test_a_rank_shows_its_stacks_and_records_its_failure(tmp_path: Path) -> None:
    for name in ("ranks", "stacks", "flight", "failures"):
        (tmp_path / name).mkdir()
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, time, helper\n"
        "def wait_here():\n    while not helper.go.exists():\n        time.sleep(0.05)\n"
        "wait_here()\nraise ValueError(*sys.argv[1:])\n"
    )
    (tmp_path / "helper.py").write_text(f"from pathlib import Path\ngo = Path({str(tmp_path / 'go')!r})\n")
    # nccl-lint: allow RANK -- a process without torchrun
    environment = {**os.environ, "WATCHDOG_DIR": str(tmp_path), "RANK": "5", "SLURMD_NODENAME": "gpu-1"}
    line = [sys.executable, str(JOBS / "watchdog" / "rank.py"), str(program), "--own", "option"]
    with subprocess.Popen(line, env=environment, stderr=subprocess.PIPE, text=True) as process:
        stacks, limit = tmp_path / "stacks" / "5", time.monotonic() + 120
        while time.monotonic() < limit and "wait_here" not in (stacks.read_text() if stacks.exists() else ""):
            if (tmp_path / "ranks" / "5").exists():
                process.send_signal(signal.SIGRTMIN + 10)
            time.sleep(0.2)
        (tmp_path / "go").touch()
        error = process.communicate(timeout=120)[1]
    assert "in wait_here" in stacks.read_text()
    assert json.loads((tmp_path / "ranks" / "5").read_text()) == {"node": "gpu-1", "pid": process.pid}
    assert json.loads((tmp_path / "failures" / "5").read_text())["error"] == "ValueError: ('--own', 'option')"
    assert process.returncode == 1 and "ValueError" in error


def test_progress_is_a_number_at_most_once_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    progress.report(1)
    monkeypatch.setenv("PROGRESS_DIR", str(tmp_path))
    monkeypatch.setenv("RANK", "3")
    progress.report(7)
    progress.report(8)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("3", "7\n")]
    monkeypatch.setattr(progress, "_written_at", 0.0)
    monkeypatch.setenv("PROGRESS_DIR", str(tmp_path / "absent"))
    progress.report(9)

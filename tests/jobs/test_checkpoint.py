"""Checkpoints are whole or not there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.jobs.conftest import TRAINING, load_module

PROGRAM = TRAINING / "checkpoint.py"


checkpoint = load_module(PROGRAM)


def write(folder: Path, step: int, *, final: bool = False, owner: str = "7") -> Path:
    """A checkpoint of two files, as a program writes it."""
    prepared = checkpoint.partial(folder, step, owner)
    prepared.mkdir(parents=True)
    files = {}
    for name in ("weights", "optimizer"):
        (prepared / name).write_bytes(f"{name} of {step}".encode() * 1000)
        files[name] = checkpoint.sync_and_hash(prepared / name)
    target = folder / checkpoint.name_of(step)
    checkpoint.publish(prepared, target, files, step=step, final=final)
    return Path(target)


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, PROGRAM, *words], capture_output=True, text=True, check=False)


def test_the_newest_whole_one_is_found(tmp_path: Path) -> None:
    for step in (100, 200):
        write(tmp_path, step)
    assert run("newest", tmp_path).stdout == f"200\t{tmp_path}/step-00000200\tintermediate\n"
    write(tmp_path, 300, final=True)
    assert run("newest", tmp_path).stdout.split() == ["300", f"{tmp_path}/step-00000300", "final"]


FAULTS: dict[str, Callable[[Path], object]] = {
    "no manifest": lambda bad: (bad / "manifest.json").unlink(),
    "half a manifest": lambda bad: (bad / "manifest.json").write_text((bad / "manifest.json").read_text()[:40]),
    "a missing file": lambda bad: (bad / "weights").unlink(),
    "a short file": lambda bad: (bad / "weights").write_bytes(b"short"),
    "another name": lambda bad: bad.rename(bad.with_name("step-00000900")),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_one_that_is_not_whole_is_passed_over(tmp_path: Path, fault: str) -> None:
    write(tmp_path, 100)
    FAULTS[fault](write(tmp_path, 200))
    assert run("newest", tmp_path).stdout.startswith("100\t")


def test_what_was_cut_short_is_not_seen_and_only_its_owner_discards_it(tmp_path: Path) -> None:
    write(tmp_path, 100)
    for owner in ("7", "77"):
        prepared = checkpoint.partial(tmp_path, 200, owner)
        prepared.mkdir()
        (prepared / "weights").write_bytes(b"half")
    assert run("newest", tmp_path).stdout.startswith("100\t")
    assert run("discard", tmp_path, "--owner", "7").stdout == f"removed {tmp_path}/.partial-step-00000200-7\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".partial-step-00000200-77", "step-00000100"]
    refused = run("discard", tmp_path, "--owner", "*")
    assert refused.returncode == 2 and "'*' is not an owner" in refused.stderr
    assert (tmp_path / ".partial-step-00000200-77").is_dir()


def test_damage_of_the_same_size_is_found_by_reading(tmp_path: Path) -> None:
    write(tmp_path, 100)
    bad = write(tmp_path, 200)
    content = bytearray((bad / "weights").read_bytes())
    content[0] ^= 1
    (bad / "weights").write_bytes(content)
    assert run("newest", tmp_path).stdout.startswith("200\t")
    done = run("verify", bad)
    assert done.returncode == 1
    assert "is damaged: weights" in done.stderr


def test_a_folder_without_one(tmp_path: Path) -> None:
    assert run("newest", tmp_path / "not-there").returncode == 1
    assert run("newest", tmp_path).stdout == ""


def test_a_second_writer_of_the_same_step_changes_nothing(tmp_path: Path) -> None:
    first = write(tmp_path, 100)
    before = (first / "manifest.json").stat().st_ino
    manifest = json.loads((first / "manifest.json").read_text())
    assert (manifest["format"], manifest["step"], manifest["final"]) == (1, 100, False)
    assert set(manifest["files"]) == {"weights", "optimizer"}
    assert set(manifest["files"]["weights"]) == {"bytes", "sha256"}
    write(tmp_path, 100, owner="8")
    assert (first / "manifest.json").stat().st_ino == before
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000100"]


def test_a_file_without_a_hash_is_refused(tmp_path: Path) -> None:
    prepared = checkpoint.partial(tmp_path, 1, "7")
    prepared.mkdir()
    (prepared / "stray").write_text("x")
    with pytest.raises(ValueError, match="stray"):
        checkpoint.publish(prepared, tmp_path / "step-00000001", {}, step=1, final=False)


def test_every_file_and_folder_is_synced_before_it_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power loss after the rename must not lose content: the order of the writer's fsync and rename calls."""
    calls = []
    real_fsync, real_rename = os.fsync, Path.rename

    def fsync(descriptor: int) -> None:
        calls.append(("fsync", Path(f"/proc/self/fd/{descriptor}").readlink().name))
        real_fsync(descriptor)

    def rename(path: Path, target: Path) -> Path:
        calls.append(("rename", target.name))
        return real_rename(path, target)

    monkeypatch.setattr(checkpoint.os, "fsync", fsync)
    monkeypatch.setattr(Path, "rename", rename)
    write(tmp_path, 100)
    assert calls == [
        ("fsync", "weights"), ("fsync", "optimizer"), ("fsync", ".manifest.json"), ("rename", "manifest.json"),
        ("fsync", ".partial-step-00000100-7"), ("rename", "step-00000100"), ("fsync", tmp_path.name),
    ]  # fmt: skip


def test_pruning_keeps_the_newest_and_the_final(tmp_path: Path) -> None:
    write(tmp_path, 50, final=True)
    for step in (100, 200, 300):
        write(tmp_path, step)
    checkpoint.prune(tmp_path, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000050", "step-00000200", "step-00000300"]
    with pytest.raises(ValueError, match="at least 1"):
        checkpoint.prune(tmp_path, 0)


def test_checkpoints_of_other_programs(tmp_path: Path) -> None:
    deepspeed, megatron = tmp_path / "deepspeed", tmp_path / "megatron"
    for folder, mark, name, text in (
        (deepspeed, "latest", "global_step40", "global_step40"),
        (megatron, "latest_checkpointed_iteration.txt", "iter_0000500", "500"),
    ):
        (folder / name).mkdir(parents=True)
        assert run("newest", folder, "--style", folder.name).returncode == 1, "no mark yet"
        (folder / mark).write_text(text)
        assert run("newest", folder, "--style", folder.name).returncode == 1, "an empty folder"
        (folder / name / "weights").write_text("x")
    assert run("newest", deepspeed, "--style", "deepspeed").stdout.split() == [
        "40", f"{deepspeed}/global_step40", "intermediate",
    ]  # fmt: skip
    assert run("newest", megatron, "--style", "megatron").stdout.startswith("500\t")

"""Data sets on the nodes: loading from S3, comparing, staging and sweeping, with a stand-in of `lfs`."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ops.data import manifest
from tests.jobs.conftest import JOBS, TRAINING, load_module
from tests.stubs import fake_command

data_set = load_module(JOBS / "lib" / "data_set.py")
token_shards = load_module(TRAINING / "token_shards.py")

# Stand-in of `lfs` of Lustre 2.15. Its lines are those that lustre/tests/sanity-hsm.sh reads (check_hsm_flags: the
# second word in parentheses, 0x0000000d for "released exists archived", 0x00000009 after a restore).
LFS = """#!/bin/sh
echo "$1" >>{log}
action=$1; shift
for file in "$@"; do
  case $action in
    hsm_state)
      flags="(0x00000009) exists archived, archive_id:1"
      [ ! -e "$file.released" ] || flags="(0x0000000d) released exists archived, archive_id:1"
      [ ! -e "$file.lost" ] || flags="(0x0000004d) released exists archived lost, archive_id:1"
      echo "$file: $flags";;
    hsm_restore)
      [ -z "{refused}" ] || {{ echo "Cannot send HSM request: Operation not permitted" >&2; exit 1; }}
      rm -f "$file.released";;
  esac
done
"""


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    (folder / "deep").mkdir(parents=True)
    for name in ("a", "deep/b c", "d"):
        (folder / name).write_bytes(name.encode() * 1000)
    files = {path: manifest.read_file(file) for path, file in manifest.scan(folder).items()}
    (folder / manifest.MANIFEST).write_text(manifest.new("corpus", files).text())
    return folder


@pytest.fixture
def lfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    def install(refused: str = "") -> Path:
        log = tmp_path / "lfs.log"
        program = fake_command(tmp_path / "bin" / "lfs", LFS.format(log=log, refused=refused))
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        return log

    monkeypatch.setattr(data_set, "_POLL_S", 0.01)
    return install


def test_a_data_set_is_loaded_and_compared(
    corpus: Path, lfs: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    log = lfs()
    for name in ("a", "deep/b c"):
        (corpus / f"{name}.released").touch()
    assert data_set.main(["verify", str(corpus)]) == 0
    assert log.read_text().split() == ["hsm_state", "hsm_restore", "hsm_state"]
    said = capsys.readouterr().err
    assert "2 of 3 files are only in S3" in said
    assert "3 files, 0.000 GB" in said
    (corpus / "a").write_bytes(b"b" * 1000)
    (corpus / "d").unlink()
    # Two nodes share the files: each finds what is wrong in its share.
    assert [data_set.main(["verify", str(corpus), "--share", f"{number}/2"]) for number in (0, 1)] == [1, 1]
    said = capsys.readouterr().err
    assert "FAILED: a: 1000 bytes with SHA-256" in said
    assert "FAILED: d: missing" in said


def test_files_that_do_not_load_are_named(
    corpus: Path, lfs: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    lfs(refused="yes")
    (corpus / "a.released").touch()
    assert data_set.main(["verify", str(corpus)]) == 0
    assert "Operation not permitted; the files are loaded when they are read" in capsys.readouterr().err
    (corpus / "a.lost").touch()
    assert data_set.main(["verify", str(corpus)]) == 1
    assert f"Lustre has lost the S3 copy of {corpus}/a (and 0 more)" in capsys.readouterr().err
    (corpus / "a.lost").unlink()
    log = lfs()
    program = log.parent / "bin" / "lfs"
    program.write_text(program.read_text().replace("rm -f", "true"))
    assert data_set.main(["verify", str(corpus), "--limit", "0"]) == 1
    assert "1 files are not loaded after 0 s" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "is not a data set: the folder contains a, d, deep, and no .trainyard-dataset.json after 0 s"),
        ("{", "is not the manifest of a data set"),
        ('{"format": 2, "files": {}}', "has format 2; these scripts read 1"),
        ('{"format": 1, "files": {"../x": {"bytes": 1, "sha256": ""}}}', "names a file outside of its folder: ../x"),
    ],
)
def test_what_is_not_a_data_set_is_refused(
    corpus: Path, text: str | None, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is None:
        (corpus / manifest.MANIFEST).unlink()
    else:
        (corpus / manifest.MANIFEST).write_text(text)
    assert data_set.main(["verify", str(corpus)]) == 1
    assert reason in capsys.readouterr().err


def name_of(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert data_set.main(["load", str(folder)]) == 0
    return capsys.readouterr().out.strip()


def test_a_data_set_is_staged_once(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = tmp_path / "nvme" / name_of(corpus, capsys)
    line = ["stage", str(corpus), str(disk)]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: argparse.Namespace(free=10))
    assert data_set.main(line) == 1
    assert "has 0.0 GB free, and 0.0 GB are missing" in capsys.readouterr().err
    monkeypatch.undo()
    assert data_set.main(line) == 0
    assert (disk / "deep/b c").read_bytes() == (corpus / "deep/b c").read_bytes()
    before = (disk / "a").stat()
    (disk / "d").write_bytes(b"damaged")
    assert data_set.main(line) == 0
    assert (disk / "a").stat().st_ino == before.st_ino, "an equal file was copied again"
    assert (disk / "d").read_bytes() == (corpus / "d").read_bytes()
    (corpus / "a").write_bytes(b"x" * 1000)
    (disk / "a").unlink()
    assert data_set.main(line) == 1
    assert not (disk / "a").exists()
    assert not list(disk.rglob("*.trainyard-staging"))
    # Another version has another copy: nothing changes under a running job.
    (corpus / manifest.MANIFEST).write_text(manifest.new("corpus", {"a": manifest.read_file(corpus / "a")}).text())
    assert data_set.main(line) == 1
    assert "If the data set was replaced meanwhile, run the job again" in capsys.readouterr().err
    other = disk.parent / name_of(corpus, capsys)
    assert data_set.main(["stage", str(corpus), str(other)]) == 0
    assert sorted(one.name for one in other.iterdir()) == [".lock", manifest.MANIFEST, "a"]
    assert (disk / "deep/b c").exists()


def test_token_shards_of_the_cluster_are_staged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As data-prepare.sbatch writes them: no manifest of a push."""
    shards = tmp_path / "tokens"
    tokenizer = token_shards.Tokenizer("t", "0" * 64, 300, 0)
    token_shards.write(shards, [[1, 2, 3, 0], [4, 0]], tokenizer)
    disk = tmp_path / name_of(shards, capsys)
    assert data_set.main(["stage", str(shards), str(disk)]) == 0
    assert token_shards.TokenShards.open(disk).verify() is None
    (shards / "shard-00000.bin").write_bytes(b"damaged")
    assert data_set.main(["verify", str(shards)]) == 1
    assert "FAILED: shard-00000.bin: 7 bytes" in capsys.readouterr().err


@pytest.mark.parametrize("line", [["sweep", ".", "--days", "0"], ["verify", ".", "--share", "x"]])
def test_wrong_arguments_are_refused(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        data_set.main(line)
    assert ended.value.code == 2
    assert "allowed:" in capsys.readouterr().err


def test_a_sweep_removes_old_temporary_files_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path.parent / f"{tmp_path.name}-bin"
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    for answer, reason in (("echo down >&2; exit 1", "squeue does not answer"), ("echo 12", "")):
        fake_command(programs / "squeue", answer)
        assert data_set.main(["sweep", str(tmp_path), "--days", "7"]) == bool(reason)
        assert reason in capsys.readouterr().err
    old = (".partial-step-00000100-7/x", ".removed-step-00000100-9/x", ".tmp-job-7/attempts", "run/y.trainyard-part")
    kept = [".partial-step-00000200-8/new", "step-00000100/x", "notes.txt", ".partial-notes", ".tmp-job-12/x"]
    kept += ["prod.staging/x", "x.tmp-job-7/x", "y.trainyard-part/x", ".partial-step-00000300-12.1/x"]
    for name in (*old, *kept):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    for path in sorted(tmp_path.rglob("*"), reverse=True):
        if path.name != "new":
            os.utime(path, (1e9, 1e9))
    assert data_set.main(["sweep", str(tmp_path), "--days", "7"]) == 0
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == len(old)
    assert "nothing removed" in shown.err
    assert all((tmp_path / name).exists() for name in (*old, *kept))
    assert data_set.main(["sweep", str(tmp_path), "--days", "7", "--delete"]) == 0
    assert not any((tmp_path / name).exists() for name in old)
    assert all((tmp_path / name).exists() for name in kept)

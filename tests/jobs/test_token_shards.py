"""Token shards hold what was written, and a damaged or foreign folder is refused with what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.jobs.conftest import TRAINING, load_module

shards = load_module(TRAINING / "token_shards.py")
TOKENIZER = shards.Tokenizer("bytes", "a" * 64, vocabulary=257, end_of_text=256)
DOCUMENTS = [list(range(100)), [], [7] * 41, list(range(50, 120))]
STREAM = [token for document in DOCUMENTS for token in [*document, 256]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shards.write(tmp_path / "data", DOCUMENTS, TOKENIZER, shard_tokens=64)
    return tmp_path / "data"


def test_windows_cross_documents_and_shards(folder: Path) -> None:
    data = shards.TokenShards.open(folder, vocabulary=257, sha256="a" * 64)
    data.verify()
    assert len(data) == len(STREAM) and data.dtype == "uint16" and len(data.shards) == 4
    for start, length in ((0, 1), (60, 8), (63, 1), (64, 64), (10, 200), (len(STREAM), 0), (0, len(STREAM))):
        assert data.window(start, length).tolist() == STREAM[start : start + length]
    with pytest.raises(IndexError, match="which has 215"):
        data.window(200, 16)


def test_a_large_vocabulary_takes_four_bytes(tmp_path: Path) -> None:
    large = shards.Tokenizer("large", "b" * 64, vocabulary=128_256, end_of_text=128_001)
    data = shards.write(tmp_path / "large", [np.array([128_000, 1])], large)
    assert data.window(0, 3).tolist() == [128_000, 1, 128_001]
    assert (tmp_path / "large/shard-00000.bin").read_bytes() == bytes.fromhex("00f40100 01000000 01f40100")


def edit(**changes: object) -> Callable[[Path], object]:
    def apply(folder: Path) -> None:
        path = folder / "manifest.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return apply


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no manifest": (lambda folder: (folder / "manifest.json").unlink(), "no manifest.json; expected a folder of token"),
    "half a manifest": (lambda folder: (folder / "manifest.json").write_text('{"format": 1,'), "cannot be read as a"),
    "another format": (edit(format=2), "format 2, this program reads 1"),
    "a missing shard": (lambda folder: (folder / "shard-00001.bin").unlink(), "shard-00001.bin: No such file.*128 byt"),
    "a short shard": (lambda folder: (folder / "shard-00002.bin").write_bytes(b"12"), "bin: 2 bytes, expected 128"),
    "another total": (edit(tokens=99), "its 4 shards have 215 tokens, it says 99"),
    "another dtype": (edit(dtype="uint32"), "dtype uint32, a vocabulary of 257 has uint16"),
    "no shards": (edit(shards=[], tokens=0), "its 0 shards"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_folder_that_is_not_whole_is_refused(folder: Path, fault: str) -> None:
    damage, says = FAULTS[fault]
    damage(folder)
    with pytest.raises(shards.ShardError, match=says):
        shards.TokenShards.open(folder)


def test_what_does_not_fit_the_model_is_refused(folder: Path) -> None:
    with pytest.raises(shards.ShardError, match="go up to 256, the model has 256: give"):
        shards.TokenShards.open(folder, vocabulary=256)
    with pytest.raises(shards.ShardError, match="SHA-256 aaaaaaaaaaaa; this run's tokenizer has cccc"):
        shards.TokenShards.open(folder, sha256="c" * 64)


def test_changed_bytes_are_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shards.main(["verify", str(folder)]) == 0
    content = bytearray((folder / "shard-00001.bin").read_bytes())
    content[9] = 0xFF
    (folder / "shard-00001.bin").write_bytes(content)
    assert shards.main(["show", str(folder)]) == 0
    assert shards.main(["verify", str(folder)]) == 1
    assert f"{folder}/shard-00001.bin: SHA-256 " in capsys.readouterr().err
    with pytest.raises(shards.ShardError, match="the vocabulary has 257: a shard is damaged"):
        shards.TokenShards.open(folder).window(60, 20)


def test_nothing_is_overwritten_or_left_behind(folder: Path) -> None:
    before = sorted(folder.parent.rglob("*"))
    for target, documents, says in (
        (folder, DOCUMENTS, "exists: nothing is overwritten"),
        (folder.parent / "new", [[1, 257]], "ids from 1 to 257; tokenizer bytes has ids from 0 to 256"),
        (folder.parent / "new", [], "the input has no text"),
    ):
        with pytest.raises(shards.ShardError, match=says):
            shards.write(target, documents, TOKENIZER)
    assert sorted(folder.parent.rglob("*")) == before

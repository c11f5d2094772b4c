"""Text becomes the same shards however the work is divided or interrupted; bad input is named by file and line."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import tokenizers

from tests.jobs.conftest import TRAINING, load_module

prepare = load_module(TRAINING / "prepare_data.py")
shards = sys.modules["token_shards"]
TEXTS = [f"Document {number}: the train {number * 7919} leaves the yard.\nÄpfel {number}" for number in range(40)]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level BPE like those of GPT-2, Llama 3 and Qwen, trained on the documents."""
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet, show_progress=False
    )
    model.train_from_iterator(TEXTS, trainer)
    path = tmp_path_factory.mktemp("tiny") / "tokenizer.json"
    model.save(str(path))
    return path


def expected(tokenizer: Path, documents: list[str]) -> list[int]:
    model = tokenizers.Tokenizer.from_file(str(tokenizer))
    end = int(model.token_to_id("<|endoftext|>") or 0)
    return [token for text in documents for token in [*model.encode(text).ids, end]]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two files of JSON lines, one of them zipped, and one of text."""
    folder = tmp_path / "input"
    (folder / "b").mkdir(parents=True)
    lines = [json.dumps({"text": text}) for text in TEXTS]
    (folder / "a.jsonl").write_text("\n".join(lines[:25]) + "\n\n")
    (folder / "b/b.jsonl.gz").write_bytes(gzip.compress("\n".join(lines[25:39]).encode()))
    (folder / "c.txt").write_text(TEXTS[39])
    (folder / ".hidden").write_text("not data")
    return folder


@pytest.fixture
def inputs(data: Path, tokenizer: Path) -> tuple[Path, Path]:
    return data, tokenizer


def run(*words: str | Path) -> int:
    return int(prepare.main([str(word) for word in words]))


def work(output: Path, *words: str) -> None:
    """In a process of its own, whose processes import the program by its path."""
    subprocess.run([sys.executable, TRAINING / "prepare_data.py", "work", "--output", output, *words], check=True)


def plan(data: Path, output: Path, tokenizer: Path, *words: str | Path) -> int:
    return run("plan", "--input", data, "--output", output, "--tokenizer", tokenizer, *words)


def small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units of a few lines, which no option allows."""
    divide = prepare.divide
    monkeypatch.setattr(prepare, "divide", lambda files, documents, _: divide(files, documents, 700))


def test_the_result_is_that_of_one_process(
    data: Path, tmp_path: Path, tokenizer: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two shares, of which one is lost and repeated; shards of at most 300 tokens."""
    stream = expected(tokenizer, TEXTS)
    small_units(monkeypatch)
    output = tmp_path / "new/tokens"
    assert plan(data, output, tokenizer, "--shard-tokens", "300") == 0
    units = len(prepare.read_plan(output).units)
    assert units > 3
    work(output, "--share", "1", "--shares", "2", "--procs", "2")
    assert run("finish", "--output", output) == 1
    assert "unit 0 (" in capsys.readouterr().err and not output.exists()
    assert plan(data, output, tokenizer, "--shard-tokens", "300") == 0
    assert f"in {units} units ({units // 2} done before)" in capsys.readouterr().out
    work(output, "--procs", "1")
    assert run("finish", "--output", output) == 0
    found = shards.TokenShards.open(output, sha256=shards.sha256_of(tokenizer))
    found.verify()
    assert found.window(0, len(found)).tolist() == stream
    assert max(shard.tokens for shard in found.shards) <= 300 and found.tokenizer.vocabulary == 400
    assert [path.name for path in output.parent.iterdir()] == ["tokens"]
    assert plan(data, output, tokenizer) == 1
    assert "exists: nothing is overwritten" in capsys.readouterr().err


@pytest.mark.parametrize("size", [1, 90, 1000, 10**9])
def test_lines_belong_to_one_part_only(data: Path, size: int) -> None:
    part_lists = prepare.divide([data / "a.jsonl", data / "c.txt"], "line", size)
    parts = [part for unit in part_lists for part in unit if part.path.endswith("a.jsonl")]
    found = [text for part in parts for text, _ in prepare.documents_of(part, "text", by_line=False)]
    assert found == TEXTS[:25]


def test_text_by_line_and_long_text_in_pieces(tmp_path: Path) -> None:
    file = tmp_path / "long.txt"
    file.write_text("a line of text\n" * 200_000)
    [[part]] = prepare.divide([file], "file", 1 << 30)
    pieces = list(prepare.documents_of(part, "", by_line=False))
    assert len(pieces) == 3 and [end for _, end in pieces] == [False, False, True]
    assert "".join(text for text, _ in pieces) == file.read_text()
    assert sum(1 for _ in prepare.documents_of(part, "", by_line=True)) == 200_000


BAD: dict[str, tuple[str, bytes, str]] = {
    "not JSON": ("a.jsonl", b'{"text": "x"}\n\n{"text": \n', r"a.jsonl:3: not JSON"),
    "not UTF-8": ("a.jsonl", b'{"text": "\xff"}\n', r"a.jsonl:1: not JSON \('utf-8' codec"),
    "no key": ("a.jsonl", b'{"body": "x"}\n', r"a.jsonl:1: no text under 'text' \(found: body\): give --text-key"),
    "a list": ("a.jsonl", b"[1]\n", r"a.jsonl:1: no text under 'text' \(found: list\)"),
    "text not UTF-8": ("a.txt", b"x\ny\xff\n", r"a.txt:2: not UTF-8"),
    "zip cut off": ("a.jsonl.gz", gzip.compress(b'{"text": "x"}\n' * 99)[:-9], "a.jsonl.gz: damaged or cut off"),
    "not a zip": ("a.jsonl.gz", b"x", "a.jsonl.gz: damaged or cut off"),
}


@pytest.mark.parametrize("fault", BAD)
def test_bad_lines_are_named(tmp_path: Path, fault: str) -> None:
    name, content, says = BAD[fault]
    (tmp_path / name).write_bytes(content)
    units = prepare.divide([tmp_path / name], "file", 5)
    with pytest.raises(prepare.PrepareError, match=says):
        for unit in units:
            for part in unit:
                list(prepare.documents_of(part, "text", by_line=False))


@pytest.mark.parametrize(
    ("change", "words", "says"),
    [
        (lambda data: data.rename(data.parent / "gone"), [], "input does not exist"),
        (lambda data: (data / "d.pdf").touch(), [], "d.pdf: unknown kind of file; allowed: .txt, .text, .jsonl"),
        (lambda data: (data / "d.parquet").touch(), [], "d.parquet needs the Python package pyarrow"),
        (lambda _: None, ["--end-of-text", "</s>"], "no end-of-text token </s>: .* for example <|endoftext|>"),
        (lambda _: None, ["--tokenizer", "/nowhere.json"], "/nowhere.json cannot be read as a tokenizer"),
        (lambda _: None, ["--tokenizer", "/nowhere.model"], "needs the Python package sentencepiece"),
        (lambda _: None, ["--shard-tokens", "0"], "--shard-tokens 0: give 1 or more"),
        (lambda data: data.with_name("tokens").write_text("a file"), [], "tokens exists: nothing is overwritten"),
    ],
)
def test_a_plan_is_refused_before_any_work(
    inputs: tuple[Path, Path],
    *,
    change: Callable[[Path], object],
    words: list[str],
    says: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data, tokenizer = inputs
    output = data.with_name("tokens")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    change(data)
    try:
        status = plan(data, output, tokenizer, *words)
    except SystemExit as end:
        status = int(end.code or 0)
    assert status in (1, 2)
    assert re.search(says.replace("<|", r"<\|").replace("|>", r"\|>"), capsys.readouterr().err)
    assert not output.with_name(".tokens.preparing").exists()


def test_a_corrected_file_is_done_again_and_others_are_kept(
    data: Path, tmp_path: Path, tokenizer: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    divide = prepare.divide
    monkeypatch.setattr(prepare, "divide", lambda files, *_: [[part] for part in divide(files, "file", 1 << 30)[0]])
    (data / "c.txt").write_bytes(b"\xff")
    output = tmp_path / "tokens"
    assert plan(data, output, tokenizer) == 0
    for unit in (0, 1):
        prepare.tokenize(output, unit)
    with pytest.raises(prepare.PrepareError, match=r"c.txt:1: not UTF-8"):
        prepare.tokenize(output, 2)
    assert not list(output.parent.glob(".tokens.preparing/.*"))
    (data / "c.txt").write_text(TEXTS[39])
    with pytest.raises(prepare.PrepareError, match=r"c.txt has changed since the job began"):
        prepare.tokenize(output, 2)
    assert plan(data, output, tokenizer) == 0
    assert "in 3 units (2 done before)" in capsys.readouterr().out
    assert prepare.tokenize(output, 2)[1] > 0 and prepare.tokenize(output, 2)[1] == 0
    assert run("finish", "--output", output) == 0

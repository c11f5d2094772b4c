"""Tokenizes text to token shards (token_shards.py), with many processes on one or many nodes.

    prepare_data.py plan   --input PATH... --output FOLDER --tokenizer FILE   checks everything and divides the work
    prepare_data.py work   --output FOLDER [--share I --shares N]             tokenizes one share of it
    prepare_data.py finish --output FOLDER                                    joins the shards, writes the manifest

The result depends on the input, the tokenizer and the options only, never on processes, nodes or interruptions. The
work is in a hidden folder next to FOLDER: after an interruption or a corrected input file, the same three commands go
on with what is not done. FOLDER appears when it is complete; an existing one is refused.

Input: text (.txt, .text), JSON lines (.jsonl, .ndjson, .json; also .gz of all these) and parquet, which needs pyarrow.
Tokenizer: Hugging Face's tokenizer.json (needs tokenizers), or SentencePiece's .model (needs sentencepiece).
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import multiprocessing
import os
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import token_shards
from text_files import Part, PrepareError, check_parquet, divide, documents_of, input_files, kind_of
from token_shards import Shard, ShardError, ShardWriter, Tokenizer

# What published tokenizers call the end of a document, in the order of preference.
ENDS = ("<|end_of_text|>", "<|endoftext|>", "</s>", "<eos>")
Encode = Callable[[str], list[int]]


@dataclass(frozen=True)
class Plan:
    """All that determines the result. A unit is a list of parts that one process tokenizes."""

    tokenizer_file: str
    tokenizer: Tokenizer
    text_key: str
    documents: str
    shard_tokens: int
    units: list[list[Part]]

    def name_of(self, unit: int) -> str:
        """A hash of all that determines the unit, to reuse a finished one if others change."""
        what = (self.tokenizer, self.text_key, self.documents, self.shard_tokens, self.units[unit])
        return hashlib.sha256(repr(what).encode()).hexdigest()[:24]


@functools.lru_cache(maxsize=1)
def load_tokenizer(path: Path) -> tuple[Encode, dict[str, int], int, int | None]:
    """The encoder of a tokenizer's file, its tokens, its number of ids, and the end of text if the file names it."""
    try:
        return (_sentencepiece if path.suffix == ".model" else _hugging_face)(path)
    except ImportError as error:
        raise PrepareError(
            f"{path} needs the Python package {error.name}: give --image an image that has it"
        ) from error
    except Exception as error:  # tokenizers raises bare Exceptions
        raise PrepareError(
            f"{path} cannot be read as a tokenizer ({error}): give tokenizer.json, or a SentencePiece .model"
        ) from error


def describe(path: Path, end_of_text: str) -> Tokenizer:
    """A tokenizer's entry in the manifest; `end_of_text` is the token's text, or empty for the usual ones."""
    _, ids, vocabulary, default = load_tokenizer(path)
    candidates = (end_of_text,) if end_of_text else ENDS
    end = next((ids[one] for one in candidates if one in ids), None if end_of_text else default)
    if end is None:
        special = sorted(one for one in ids if one.startswith(("<", "[")) and one.endswith((">", "]")))[:20]
        raise PrepareError(
            f"{path} has no end-of-text token {' or '.join(candidates)}: give --end-of-text one of its tokens, "
            f"for example {', '.join(special) or '(it has no special tokens)'}"
        )
    return Tokenizer(f"{path.resolve().parent.name}/{path.name}", token_shards.sha256_of(path), vocabulary, end)


def _hugging_face(path: Path) -> tuple[Encode, dict[str, int], int, int | None]:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes are the parallelism
    import tokenizers

    model = tokenizers.Tokenizer.from_file(str(path))
    model.no_truncation()
    model.no_padding()
    ids = model.get_vocab(with_added_tokens=True)
    return lambda text: model.encode(text, add_special_tokens=False).ids, ids, max(ids.values()) + 1, None


def _sentencepiece(path: Path) -> tuple[Encode, dict[str, int], int, int | None]:
    import sentencepiece

    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    size = model.vocab_size()
    end = model.eos_id()
    return model.encode, {model.id_to_piece(one): one for one in range(size)}, size, end if end >= 0 else None


def working_folder(output: Path) -> Path:
    """The hidden folder of the work for `output`."""
    return output.with_name(f".{output.name}.preparing")


def _replace(path: Path, content: dict[str, Any]) -> None:
    temporary = path.with_name(f".{path.name}-{os.uname().nodename}-{os.getpid()}")
    temporary.write_text(json.dumps(content))
    temporary.replace(path)


def make_plan(options: argparse.Namespace) -> Plan:
    """Check the input and the tokenizer, and write the plan."""
    output = options.output.resolve()
    token_shards.refuse_existing(output)
    files = input_files(options.input)
    for path in files:
        if kind_of(path) == "parquet":
            check_parquet(path, options.text_key)
    tokenizer = describe(options.tokenizer, options.end_of_text)
    units = divide(files, options.documents, options.unit_mib << 20)
    file = str(options.tokenizer.resolve())
    plan = Plan(file, tokenizer, options.text_key, options.documents, options.shard_tokens, units)
    folder = working_folder(output)
    folder.mkdir(parents=True, exist_ok=True)
    _replace(folder / "plan.json", asdict(plan))
    size = sum(path.stat().st_size for path in files)
    done = sum((folder / f"{plan.name_of(unit)}.json").exists() for unit in range(len(units)))
    print(f"{len(files)} files, {size} bytes, in {len(units)} units ({done} done before); tokenizer {tokenizer}")
    return plan


def read_plan(output: Path) -> Plan:
    """The plan that `plan` wrote."""
    path = working_folder(output.resolve()) / "plan.json"
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise PrepareError(f"{path} cannot be read ({error}): run `plan` first") from error
    found["tokenizer"] = Tokenizer(**found["tokenizer"])
    found["units"] = [[Part(**part) for part in unit] for unit in found["units"]]
    return Plan(**found)


def tokenize(output: Path, unit: int) -> tuple[int, int]:
    """Tokenize one unit, unless it is done. Returns its tokens, and those made now."""
    folder, plan = working_folder(output.resolve()), read_plan(output)
    name = plan.name_of(unit)
    record = folder / f"{name}.json"
    if record.exists():
        return sum(shard["tokens"] for shard in json.loads(record.read_text())["shards"]), 0
    encode = load_tokenizer(Path(plan.tokenizer_file))[0]
    prefix = f".{name}-{os.uname().nodename}-{os.getpid()}"
    try:
        writer = ShardWriter(folder, plan.tokenizer, shard_tokens=plan.shard_tokens, prefix=prefix)
        for part in plan.units[unit]:
            for text, end in documents_of(part, plan.text_key, by_line=plan.documents == "line"):
                writer.add(encode(text), end=end)
        shards = writer.close()
        for number, shard in enumerate(shards):
            (folder / shard.file).replace(folder / f"{name}-{number:05d}.bin")
    finally:
        for left in folder.glob(f"{prefix}-*"):
            left.unlink()
    made = [{**asdict(shard), "file": f"{name}-{number:05d}.bin"} for number, shard in enumerate(shards)]
    _replace(record, {"shards": made})
    tokens = sum(shard.tokens for shard in shards)
    return tokens, tokens


def work(options: argparse.Namespace) -> None:
    """Tokenize this share of the units, with several processes."""
    plan = read_plan(options.output)
    if token_shards.sha256_of(Path(plan.tokenizer_file)) != plan.tokenizer.sha256:
        raise PrepareError(f"{plan.tokenizer_file} has changed since the job began: submit the job again")
    mine = range(options.share, len(plan.units), options.shares)
    began, made = time.monotonic(), 0
    pool = ProcessPoolExecutor(max(1, min(options.procs, len(mine))), multiprocessing.get_context("spawn"))
    try:
        futures = {pool.submit(tokenize, options.output, unit): unit for unit in mine}
        for count, future in enumerate(as_completed(futures), 1):
            tokens, new = future.result()
            made += new
            rate = made / (time.monotonic() - began)
            path = plan.units[futures[future]][0].path
            print(f"{count} of {len(mine)}: {tokens} tokens from {path}, {rate:.0f} tokens/s", flush=True)
    except BrokenProcessPool as error:
        raise PrepareError("a process was killed, probably out of memory: give a smaller --procs") from error
    finally:
        pool.shutdown(cancel_futures=True)


def finish(options: argparse.Namespace) -> None:
    """Join the shards of all units, in order, and publish them."""
    output = options.output.resolve()
    folder, plan = working_folder(output), read_plan(output)
    token_shards.refuse_existing(output)
    complete = folder / "complete"
    shutil.rmtree(complete, ignore_errors=True)
    complete.mkdir()
    shards: list[Shard] = []
    for unit, parts in enumerate(plan.units):
        record = folder / f"{plan.name_of(unit)}.json"
        if not record.exists():
            raise PrepareError(f"unit {unit} ({parts[0].path}) is not tokenized: submit the job again, it goes on")
        for one in json.loads(record.read_text())["shards"]:
            shard = Shard(f"shard-{len(shards):05d}.bin", one["tokens"], one["sha256"])
            os.link(folder / one["file"], complete / shard.file)
            shards.append(shard)
    token_shards.publish(complete, output, shards, plan.tokenizer)
    shutil.rmtree(folder)
    data = token_shards.TokenShards.open(output)
    print(f"{output}: {len(data)} tokens of {data.tokenizer.name} in {len(shards)} shards, {data.dtype}")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(
        prog="prepare_data.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    top.add_argument("command", choices=("plan", "work", "finish"))
    add = top.add_argument
    add("--output", type=Path, required=True, help="new folder for the shards")
    add("--input", type=Path, nargs="+", default=[], help="files, or folders that are searched")
    add("--tokenizer", type=Path, help="tokenizer.json or SentencePiece's .model")
    add("--end-of-text", default="", help=f"token that ends a document (default: the first of {', '.join(ENDS)})")
    add("--text-key", default="text", help="key of JSON objects, or column of parquet (default: text)")
    add("--documents", choices=("file", "line"), default="file", help="a document of a text file (default: file)")
    add("--shard-tokens", type=int, default=token_shards.SHARD_TOKENS, help="most tokens of a shard")
    add("--unit-mib", type=int, default=256, help="MiB of input that a process takes at a time")
    add("--procs", type=int, default=len(os.sched_getaffinity(0)), help="processes (default: one per CPU)")
    add("--share", type=int, default=0, help="which share of the work, from 0")
    add("--shares", type=int, default=1, help="number of shares")
    return top


def main(arguments: list[str]) -> int:
    """Run one command. Exit codes: 0 done, 1 input or a file system refused, 2 wrong arguments."""
    top = parser()
    options = top.parse_args(arguments)
    for name in ("shard_tokens", "unit_mib", "procs", "shares"):
        if getattr(options, name) < 1:
            top.error(f"--{name.replace('_', '-')} {getattr(options, name)}: give 1 or more")
    if options.command == "plan" and not (options.input and options.tokenizer):
        top.error("plan needs --input and --tokenizer")
    if not 0 <= options.share < options.shares:
        top.error(f"--share {options.share}: give 0 to {options.shares - 1}")
    try:
        {"plan": make_plan, "work": work, "finish": finish}[options.command](options)
    except (PrepareError, ShardError, OSError) as error:
        print(f"prepare_data.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""megatron_data.py check|finish|verify: input and output of Megatron-LM's tools/preprocess_data.py.

`check FILE` reads the first lines of a .jsonl file. `finish FOLDER` compares the index with the number of documents of
the input, and writes the manifest that train-megatron.sbatch reads. `verify FOLDER` reads every byte of a data set.

The index, PREFIX.idx, is that of Megatron-LM core_v0.16.1, megatron/core/datasets/indexed_dataset.py: 9 bytes of magic,
then little-endian a version (8 bytes), a type (1), the number of sequences (8) and of documents plus one (8); then
for each sequence its length (4) and its position (8), and for each document its first sequence (8).
The standard library only, Python 3.9 or later. Exit codes: 0 done; 1 not as it should be; 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import array
import hashlib
import json
import struct
import sys
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"
_HEADER = struct.Struct("<9sQBQQ")
_MAGIC = b"MMIDIDX\0\0"
_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 8, 7: 4, 8: 2}
_FIRST_LINES = 1000


class Invalid(Exception):
    """What is wrong with an input or a data set."""


def check(file: Path, key: str, most: int | None = _FIRST_LINES) -> int:
    """The documents of a .jsonl file; with `most`, of its first lines."""
    count = 0
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if most is not None and number > most:
                break
            try:
                text = json.loads(line)[key]
            except (ValueError, KeyError, TypeError) as problem:
                advice = f'give one JSON object a line, as {{"{key}": "..."}}, or another --key'
                raise Invalid(f"{file}, line {number}: {problem!r}; {advice}") from problem
            if not isinstance(text, str):
                raise Invalid(f"{file}, line {number}: '{key}' is not a text; give another --key")
            count += 1
    if not count:
        raise Invalid(f"{file} is empty: give a .jsonl file")
    return count


def index(path: Path) -> tuple[int, int]:
    """Documents and tokens by an index, which must fit its .bin file."""
    with path.open("rb") as file:
        header = file.read(_HEADER.size)
        if len(header) < _HEADER.size:
            raise Invalid(f"{path} is cut short")
        magic, version, kind, sequences, documents = _HEADER.unpack(header)
        if magic != _MAGIC or version != 1 or kind not in _BYTES:
            raise Invalid(f"{path} is not an index of Megatron-LM")
        size, wanted = path.stat().st_size, _HEADER.size + 12 * sequences + 8 * documents
        if size != wanted:
            raise Invalid(f"{path} has {size} bytes, its header says {wanted}")
        lengths = array.array("i")
        lengths.fromfile(file, sequences)
    if sys.byteorder == "big":
        lengths.byteswap()
    tokens = sum(lengths)
    size, wanted = path.with_suffix(".bin").stat().st_size, tokens * _BYTES[kind]
    if size != wanted or not tokens:
        raise Invalid(f"{path.with_suffix('.bin')} has {size} bytes, its index says {wanted}")
    return documents - 1, tokens


def vocabulary(tokenizer: Path) -> int | None:
    """Tokens of a Hugging Face tokenizer by its tokenizer.json; None for other tokenizers."""
    try:
        found = json.loads((tokenizer / "tokenizer.json").read_text())
        words = found["model"]["vocab"]
        numbers = set(words.values()) if isinstance(words, dict) else set(range(len(words)))
        return len(numbers | {one["id"] for one in found.get("added_tokens", [])})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 23):
            found.update(chunk)
    return found.hexdigest()


def finish(folder: Path, prefix: str, source: Path, tokenizer: dict[str, Any]) -> None:
    """Write the manifest of a data set that is complete."""
    key = prefix[len("data_") : -len("_document")]
    wanted = check(source, key, None)
    documents, tokens = index(folder / f"{prefix}.idx")
    if documents != wanted:
        raise Invalid(
            f"the data set has {documents} documents, {source} has {wanted}: a process failed, see its output"
        )
    names = [f"{prefix}.bin", f"{prefix}.idx"]
    manifest = {
        "format": 1,
        "program": "Megatron-LM tools/preprocess_data.py",
        "prefix": prefix,
        "source": str(source),
        "documents": documents,
        "tokens": tokens,
        "tokenizer": tokenizer,
        "files": {name: {"bytes": (folder / name).stat().st_size, "sha256": digest(folder / name)} for name in names},
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    print(f"{documents} documents, {tokens} tokens", file=sys.stderr)


def verify(folder: Path) -> None:
    """Compare every file with its SHA-256."""
    manifest = json.loads((folder / MANIFEST).read_text())
    bad = [name for name, one in manifest["files"].items() if digest(folder / name) != one["sha256"]]
    if bad:
        raise Invalid(f"{folder} is damaged: {', '.join(bad)}. Copy or prepare it again")
    index(folder / f"{manifest['prefix']}.idx")


def main(words: list[str]) -> int:
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(
        prog="megatron_data.py", description="Check input and output of preprocess_data.py."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    checker = commands.add_parser("check", help="read the first lines of the input")
    checker.add_argument("file", type=Path)
    checker.add_argument("--key", default="text")
    finisher = commands.add_parser("finish", help="check the output and write the manifest")
    finisher.add_argument("folder", type=Path)
    finisher.add_argument("--prefix", required=True)
    finisher.add_argument("--input", type=Path, required=True)
    finisher.add_argument("--tokenizer-type", required=True)
    finisher.add_argument("--tokenizer-model", type=Path, required=True)
    verifier = commands.add_parser("verify", help="read every byte of a data set")
    verifier.add_argument("folder", type=Path)
    options = parser.parse_args(words)
    try:
        if options.command == "check":
            check(options.file, options.key)
        elif options.command == "finish":
            model = options.tokenizer_model
            tokenizer = {"type": options.tokenizer_type, "model": str(model), "vocabulary": vocabulary(model)}
            finish(options.folder, options.prefix, options.input, tokenizer)
        else:
            verify(options.folder)
    except (Invalid, OSError, ValueError, KeyError) as problem:
        print(f"megatron_data.py: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

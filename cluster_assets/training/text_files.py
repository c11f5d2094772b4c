"""Reads documents from text files, JSON lines and parquet, in parts that processes share; for prepare_data.py."""

from __future__ import annotations

import functools
import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KINDS = {".txt": "text", ".text": "text", ".jsonl": "json", ".ndjson": "json", ".json": "json", ".parquet": "parquet"}
_PIECE = 1 << 20
# Text, and whether the document ends with it.
Piece = tuple[str, bool]


class PrepareError(Exception):
    """Input that cannot be tokenized: what was found, and what to do."""


@dataclass(frozen=True)
class Part:
    """Lines of a file that begin in a range of bytes; the whole file where `end` is None."""

    path: str
    size: int
    changed: int
    start: int = 0
    end: int | None = None


def kind_of(path: Path) -> str:
    """text, json or parquet, by the file's name."""
    name = path.name.lower()
    kind = KINDS.get(Path(name.removesuffix(".gz")).suffix)
    if kind is None or (kind == "parquet" and name.endswith(".gz")):
        raise PrepareError(f"{path}: unknown kind of file; allowed: {', '.join(KINDS)}, and .gz of text and JSON lines")
    return kind


def input_files(inputs: list[Path]) -> list[Path]:
    """The files, each folder's sorted by path; hidden ones are left out."""
    files: list[Path] = []
    for given in inputs:
        if given.is_dir():
            inside = [path for path in given.rglob("*") if path.is_file()]
            found = sorted(path for path in inside if not any(n.startswith(".") for n in path.relative_to(given).parts))
            if not found:
                raise PrepareError(f"{given} has no files: give files or folders of {', '.join(KINDS)}")
            files += found
        elif given.is_file():
            files.append(given)
        else:
            raise PrepareError(
                f"{given} does not exist, or is not a file or a folder: give files of {', '.join(KINDS)}"
            )
    for path in files:
        kind_of(path)
    if len({path.resolve() for path in files}) < len(files):
        raise PrepareError(f"a file is given twice among {', '.join(str(one) for one in inputs)}: give each once")
    return files


def divide(files: list[Path], documents: str, unit_bytes: int) -> list[list[Part]]:
    """Units of about `unit_bytes`: small files together, files of lines cut at line ends."""
    units: list[list[Part]] = []
    filled = unit_bytes
    for path in files:
        status = path.stat()
        part = Part(str(path.resolve()), status.st_size, status.st_mtime_ns)
        lines = path.suffix != ".gz" and (kind_of(path) == "json" or (kind_of(path) == "text" and documents == "line"))
        pieces = [part]
        if lines and part.size > unit_bytes:
            starts = range(0, part.size, unit_bytes)
            pieces = [Part(part.path, part.size, part.changed, at, min(at + unit_bytes, part.size)) for at in starts]
        for piece in pieces:
            size = (part.size if piece.end is None else piece.end) - piece.start
            if filled + size > unit_bytes:
                units.append([])
                filled = 0
            units[-1].append(piece)
            filled += size
    return units


def documents_of(part: Part, key: str, *, by_line: bool) -> Iterator[Piece]:
    """The documents of a part, in order, `key` being the JSON key or the column of the text."""
    path = Path(part.path)
    try:
        status = path.stat()
        if (status.st_size, status.st_mtime_ns) != (part.size, part.changed):
            raise PrepareError(f"{path} has changed since the job began: submit the job again")
        kind = kind_of(path)
        if kind == "parquet":
            yield from _parquet(path, key)
        elif kind == "json":
            for number, line in _lines(part):
                if line.strip():
                    yield _text_of(line, key, functools.partial(_where, part, number)), True
        else:
            yield from _text(part, by_line=by_line)
    except (EOFError, gzip.BadGzipFile) as error:
        raise PrepareError(f"{path}: damaged or cut off ({error}): copy it again") from error


def _lines(part: Part) -> Iterator[tuple[int, bytes]]:
    """Lines with their number, from 1 at the part's first line."""
    path = Path(part.path)
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        if part.start:
            # A line belongs to the part in which it begins.
            file.seek(part.start - 1)
            file.readline()
        number = 0
        while part.end is None or file.tell() < part.end:
            line = file.readline()
            if not line:
                return
            number += 1
            yield number, line


def _where(part: Part, number: int) -> str:
    """FILE:LINE of a part's line, for messages; counts the lines before the part."""
    if part.start:
        with Path(part.path).open("rb") as file:
            left = part.start - 1
            while chunk := file.read(min(left, _PIECE)):
                number += chunk.count(b"\n")
                left -= len(chunk)
            number += 1
    return f"{part.path}:{number}"


def _text_of(line: bytes, key: str, where: Callable[[], str]) -> str:
    try:
        found: Any = json.loads(line)
    except ValueError as error:  # also of UTF-8
        raise PrepareError(f"{where()}: not JSON ({error}): correct or remove the line") from error
    if not isinstance(found, dict) or not isinstance(found.get(key), str):
        keys = ", ".join(found) if isinstance(found, dict) else type(found).__name__
        raise PrepareError(f"{where()}: no text under '{key}' (found: {keys}): give --text-key, or correct the line")
    return str(found[key])


def _text(part: Part, *, by_line: bool) -> Iterator[Piece]:
    held: list[str] = []
    size = 0
    for number, line in _lines(part):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise PrepareError(f"{_where(part, number)}: not UTF-8 ({error.reason}): convert the file") from error
        if by_line:
            if text.strip():
                yield text.rstrip("\r\n"), True
            continue
        # A long document is tokenized in pieces that end at a line end, to bound memory.
        if size >= _PIECE:
            yield "".join(held), False
            held, size = [], 0
        held.append(text)
        size += len(line)
    if held:
        yield "".join(held), True


def _parquet(path: Path, key: str) -> Iterator[Piece]:
    import pyarrow.parquet

    for batch in pyarrow.parquet.ParquetFile(path).iter_batches(batch_size=1024, columns=[key]):
        for text in batch.column(0).to_pylist():
            if text:
                yield text, True


def check_parquet(path: Path, key: str) -> None:
    try:
        import pyarrow.parquet

        names = pyarrow.parquet.read_schema(path).names
    except ImportError as error:
        raise PrepareError(f"{path} needs the Python package pyarrow: give --image an image that has it") from error
    except (OSError, ValueError) as error:  # pyarrow's own errors are both
        raise PrepareError(f"{path} cannot be read as parquet: {error}") from error
    if key not in names:
        raise PrepareError(f"{path}: no column '{key}' (found: {', '.join(names)}): give --text-key")

"""Token shards: the token ids of a data set in binary files, memory-mapped by the trainers.

    <data>/manifest.json    format, dtype, tokenizer (name, sha256, vocabulary, end_of_text), tokens, and the shards
    <data>/shard-00000.bin  little-endian token ids; each document ends with end_of_text

A writer fills a hidden folder next to the target, writes the manifest last and renames the folder, so a folder with a
manifest is complete. Needs numpy.

    python3 token_shards.py show FOLDER     prints what it holds, after the fast checks
    python3 token_shards.py verify FOLDER   reads every shard and compares its SHA-256

Exit codes: 0 done; 1 the folder is not a complete, undamaged set; 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import bisect
import hashlib
import itertools
import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

FORMAT = 1
MANIFEST = "manifest.json"
SHARD_TOKENS = 256 * 1024 * 1024
DTYPES = {"uint16": "<u2", "uint32": "<u4"}
_CHUNK = 8 * 1024 * 1024
_AGAIN = "prepare the data again (data-prepare.sbatch), or copy the folder again"


class ShardError(Exception):
    """A data set that cannot be written or read: the file, what was found, what was expected, what to do."""


@dataclass(frozen=True)
class Tokenizer:
    """The tokenizer that made the ids. `vocabulary` is its number of ids, added tokens included."""

    name: str
    sha256: str
    vocabulary: int
    end_of_text: int

    @property
    def dtype(self) -> str:
        """The smallest type that holds every id."""
        return "uint16" if self.vocabulary <= 1 << 16 else "uint32"


@dataclass(frozen=True)
class Shard:
    """One file of token ids."""

    file: str
    tokens: int
    sha256: str


class ShardWriter:
    """Writes documents to `<folder>/<prefix>-NNNNN.bin`; a document continues in the next file when one is full."""

    def __init__(
        self, folder: Path, tokenizer: Tokenizer, *, shard_tokens: int = SHARD_TOKENS, prefix: str = "shard"
    ) -> None:
        if shard_tokens < 1:
            raise ShardError(f"{shard_tokens} tokens a shard: give 1 or more")
        if not 0 <= tokenizer.end_of_text < tokenizer.vocabulary <= 1 << 32:
            raise ShardError(
                f"tokenizer {tokenizer.name}: end of text {tokenizer.end_of_text}, vocabulary {tokenizer.vocabulary}: "
                "the end of text must be an id of the vocabulary, and the vocabulary at most 2^32"
            )
        self._folder, self._tokenizer, self._limit, self._prefix = folder, tokenizer, shard_tokens, prefix
        self._shards: list[Shard] = []
        self._file: IO[bytes] | None = None
        self._tokens = 0
        self._digest = hashlib.sha256()

    def add(self, ids: Iterable[int] | npt.NDArray[np.integer], *, end: bool = True) -> None:
        """Append a document, or a piece of one that goes on (`end=False`)."""
        values = np.fromiter(ids, np.int64) if not isinstance(ids, np.ndarray) else ids.astype(np.int64)
        if len(values) and not 0 <= int(values.min()) <= int(values.max()) < self._tokenizer.vocabulary:
            raise ShardError(
                f"token ids from {values.min()} to {values.max()}; tokenizer {self._tokenizer.name} has ids from 0 to "
                f"{self._tokenizer.vocabulary - 1}: give the tokenizer that made the ids"
            )
        if end:
            values = np.append(values, self._tokenizer.end_of_text)
        encoded = values.astype(DTYPES[self._tokenizer.dtype])
        while len(encoded):
            if self._file is None:
                self._file = (self._folder / f"{self._prefix}-{len(self._shards):05d}.bin").open("wb")
            now, encoded = encoded[: self._limit - self._tokens], encoded[self._limit - self._tokens :]
            content = now.tobytes()
            self._file.write(content)
            self._digest.update(content)
            self._tokens += len(now)
            if self._tokens == self._limit:
                self._end_shard()

    def _end_shard(self) -> None:
        if self._file is None:
            return
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._shards.append(Shard(Path(self._file.name).name, self._tokens, self._digest.hexdigest()))
        self._file, self._tokens, self._digest = None, 0, hashlib.sha256()

    def close(self) -> list[Shard]:
        """End the last file. Returns all files in order."""
        self._end_shard()
        return self._shards


def refuse_existing(target: Path) -> None:
    """Raise ShardError if there is anything at `target` but an empty folder."""
    if target.is_symlink() or (target.exists() and not (target.is_dir() and not any(target.iterdir()))):
        raise ShardError(f"{target} exists: nothing is overwritten; give another folder, or remove this one first")


def publish(prepared: Path, target: Path, shards: Sequence[Shard], tokenizer: Tokenizer) -> None:
    """Write the manifest of a folder whose shards are complete, and rename the folder to `target`."""
    if not shards:
        raise ShardError(f"no tokens for {target}: the input has no text")
    manifest = {
        "format": FORMAT,
        "dtype": tokenizer.dtype,
        "tokenizer": asdict(tokenizer),
        "tokens": sum(shard.tokens for shard in shards),
        "shards": [asdict(shard) for shard in shards],
    }
    refuse_existing(target)
    with (prepared / MANIFEST).open("w") as file:
        json.dump(manifest, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    prepared.rename(target)


def write(
    folder: Path,
    documents_of_ids: Iterable[Iterable[int]],
    tokenizer: Tokenizer,
    shard_tokens: int = SHARD_TOKENS,
) -> TokenShards:
    """Write documents to a new folder, which must not exist or be empty.

    Raises:
        ShardError: the folder is not empty, a token id is outside the vocabulary, or no document was given.
    """
    folder = Path(folder)
    refuse_existing(folder)
    prepared = folder.with_name(f".{folder.name}.partial-{os.getpid()}")
    prepared.mkdir(parents=True)
    try:
        writer = ShardWriter(prepared, tokenizer, shard_tokens=shard_tokens)
        for document in documents_of_ids:
            writer.add(document)
        publish(prepared, folder, writer.close(), tokenizer)
    finally:
        shutil.rmtree(prepared, ignore_errors=True)
    return TokenShards.open(folder)


class TokenShards:
    """A data set, read by position over all shards. `open` makes it."""

    def __init__(self, folder: Path, dtype: str, tokenizer: Tokenizer, shards: Sequence[Shard]) -> None:
        self.folder, self.dtype, self.tokenizer, self.shards = folder, dtype, tokenizer, tuple(shards)
        self._ends = list(itertools.accumulate(shard.tokens for shard in shards))
        self._maps: dict[int, npt.NDArray[np.unsignedinteger]] = {}

    @classmethod
    def open(cls, folder: Path | str, vocabulary: int | None = None, sha256: str | None = None) -> TokenShards:
        """Open a folder after fast checks: manifest, presence and size of every shard, and the tokenizer.

        Args:
            folder: with the manifest.
            vocabulary: number of ids of the model; the data's must not be larger.
            sha256: checksum of the tokenizer's file that the caller has; the data's must be the same.

        Raises:
            ShardError: what is wrong, and what to do.
        """
        folder = Path(folder)
        path = folder / MANIFEST
        try:
            manifest = json.loads(path.read_text("utf-8"))
            if manifest["format"] != FORMAT:
                raise ShardError(f"{path}: format {manifest['format']}, this program reads {FORMAT}: use its version")
            dtype, tokens = str(manifest["dtype"]), int(manifest["tokens"])
            tokenizer = Tokenizer(**manifest["tokenizer"])
            shards = [Shard(**one) for one in manifest["shards"]]
        except FileNotFoundError as error:
            found = "no manifest.json" if folder.is_dir() else "no folder of this name"
            raise ShardError(f"{folder}: {found}; expected a folder of token shards: {_AGAIN}") from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ShardError(f"{path} cannot be read as a manifest of token shards ({error!r}): {_AGAIN}") from error
        if dtype != tokenizer.dtype:
            raise ShardError(f"{path}: dtype {dtype}, a vocabulary of {tokenizer.vocabulary} has {tokenizer.dtype}")
        for shard in shards:
            _check_size(folder / shard.file, shard.tokens * np.dtype(DTYPES[dtype]).itemsize)
        total = sum(shard.tokens for shard in shards)
        if total != tokens or not shards:
            raise ShardError(f"{path}: its {len(shards)} shards have {total} tokens, it says {tokens}: {_AGAIN}")
        if vocabulary is not None and tokenizer.vocabulary > vocabulary:
            raise ShardError(
                f"{folder}: token ids of {tokenizer.name} go up to {tokenizer.vocabulary - 1}, the model has "
                f"{vocabulary}: give the data of the model's tokenizer, or a model with a larger vocabulary"
            )
        if sha256 is not None and tokenizer.sha256 != sha256:
            raise ShardError(
                f"{folder}: made with tokenizer {tokenizer.name}, SHA-256 {tokenizer.sha256[:12]}; this run's "
                f"tokenizer has {sha256[:12]}: give the same tokenizer, or prepare the data with this one"
            )
        return cls(folder, dtype, tokenizer, shards)

    def __len__(self) -> int:
        return self._ends[-1]

    def window(self, start: int, length: int) -> npt.NDArray[np.unsignedinteger]:
        """A copy of `length` ids from position `start`, over as many shards as it takes."""
        if start < 0 or length < 0 or start + length > len(self):
            raise IndexError(f"tokens {start} to {start + length} of {self.folder}, which has {len(self)}")
        pieces, wanted = [], length
        index = bisect.bisect_right(self._ends, start)
        offset = start - (self._ends[index - 1] if index else 0)
        while wanted:
            piece = self._map(index)[offset : offset + wanted]
            pieces.append(piece)
            wanted -= len(piece)
            index, offset = index + 1, 0
        result = np.concatenate(pieces) if pieces else np.empty(0, DTYPES[self.dtype])
        if length and int(result.max()) >= self.tokenizer.vocabulary:
            raise ShardError(
                f"{self.folder}: token id {result.max()} in {start} to {start + length}, the vocabulary has "
                f"{self.tokenizer.vocabulary}: a shard is damaged; run token_shards.py verify {self.folder}"
            )
        return result

    def _map(self, index: int) -> npt.NDArray[np.unsignedinteger]:
        if index not in self._maps:
            self._maps[index] = np.memmap(self.folder / self.shards[index].file, DTYPES[self.dtype], mode="r")
        return self._maps[index]

    def verify(self) -> None:
        """Read every shard, and raise ShardError where its SHA-256 differs from the manifest's."""
        for shard in self.shards:
            found = sha256_of(self.folder / shard.file)
            if found != shard.sha256:
                raise ShardError(
                    f"{self.folder / shard.file}: SHA-256 {found}, expected {shard.sha256}: it is damaged; {_AGAIN}"
                )


def _check_size(path: Path, expected: int) -> None:
    try:
        found = path.stat().st_size
    except OSError as error:
        raise ShardError(
            f"{path}: {error.strerror}, expected {expected} bytes: a shard is missing; {_AGAIN}"
        ) from error
    if found != expected:
        raise ShardError(f"{path}: {found} bytes, expected {expected}: it is cut off or damaged; {_AGAIN}")


def sha256_of(path: Path) -> str:
    """SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def main(arguments: list[str]) -> int:
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="token_shards.py", description="Show or verify a folder of token shards.")
    parser.add_argument("command", choices=("show", "verify"))
    parser.add_argument("folder", type=Path)
    options = parser.parse_args(arguments)
    try:
        data = TokenShards.open(options.folder)
        if options.command == "verify":
            data.verify()
    except (ShardError, OSError) as error:
        print(f"token_shards.py: {error}", file=sys.stderr)
        return 1
    checked = "every SHA-256 is that of the manifest" if options.command == "verify" else "sizes checked"
    print(f"{data.folder}: {len(data)} tokens of {data.tokenizer.name} in {len(data.shards)} shards, {checked}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

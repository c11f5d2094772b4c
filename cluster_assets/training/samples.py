"""Samples for training: which tokens each sample of each step has, whatever the number of processes.

A sample has a number: 0 to batch - 1 in the first step, and so on. Token shards are cut into windows of length + 1
tokens, visited in an order that only the seed and the epoch determine. Text is tokenized while training: sample i of
every batch reads documents i, i + batch, i + 2 batch, ... of such an order. So the data of a step does not depend on
restarts or on the number of nodes.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from prepare_data import describe, load_tokenizer
from text_files import PrepareError
from token_shards import ShardError, TokenShards, sha256_of

Tokens = npt.NDArray[np.int64]
_ROUNDS = 4


class DataError(Exception):
    """Data that cannot be used: what was given, what is expected, what to do."""


def scattered(index: int, count: int, seed: int) -> int:
    """The place of `index` in a random order of 0 to count - 1, without a table of all (a Feistel network)."""
    half = max(1, ((count - 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1
    while True:
        left, right = index >> half, index & mask
        for turn in range(_ROUNDS):
            mixed = (right * 0x9E3779B97F4A7C15 + seed * 0xC2B2AE3D27D4EB4F + turn * 0x165667B19E3779F9) & (1 << 64) - 1
            mixed = ((mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9) & (1 << 64) - 1
            left, right = right, left ^ (mixed >> 32 & mask)
        index = left << half | right
        if index < count:  # numbers outside are scattered again until one is inside
            return index


class Samples(ABC):
    """Samples of length + 1 tokens."""

    name: str
    held = 0  # samples kept for evaluation, which training leaves out
    checksum = ""  # of the data, where it has one

    @abstractmethod
    def sample(self, number: int) -> Tokens:
        """A training sample by its number."""

    def held_out(self, index: int) -> Tokens:  # noqa: ARG002 -- for those that have some
        """A sample that training does not use."""
        raise DataError(f"{self.name} has no samples for evaluation: give --eval-data, a folder of token shards")

    def position(self) -> dict[str, list[int]]:
        """What a restart needs beyond the number of the next sample."""
        return {}


class Generated(Samples):
    """Learnable tokens without a data set: each is one of four that may follow the one before."""

    def __init__(self, vocabulary: int, length: int, seed: int) -> None:
        self.name = "generated tokens"
        self._range, self._length, self._seed = min(vocabulary, 4096), length, seed

    def sample(self, number: int) -> Tokens:
        random = np.random.default_rng((self._seed, number))
        steps = random.integers(7, 11, self._length + 1)
        return (random.integers(self._range) + steps.cumsum()) % self._range

    def held_out(self, index: int) -> Tokens:
        return self.sample((1 << 62) + index)


class Windows(Samples):
    """Windows of token shards; the last `held` are for evaluation."""

    def __init__(self, shards: TokenShards, length: int, seed: int, *, held: int) -> None:
        self.name = str(shards.folder)
        self._shards, self._length, self._seed = shards, length, seed
        self.checksum = hashlib.sha256("".join(one.sha256 for one in shards.shards).encode()).hexdigest()
        self.hold(held)

    def hold(self, held: int) -> None:
        """Leave `held` windows out of training. The order of all others depends on their number."""
        windows = (len(self._shards) - 1) // self._length
        self.held, self._count = held, windows - held
        if self._count < 1:
            raise DataError(
                f"{self.name} has {len(self._shards)} tokens, which are {windows} samples of --length {self._length}; "
                f"{held} are held out for evaluation: give more data, a smaller --length or --eval-samples"
            )

    def _window(self, index: int) -> Tokens:
        try:
            return self._shards.window(index * self._length, self._length + 1).astype(np.int64)
        except (ShardError, OSError) as error:
            raise DataError(str(error)) from error

    def sample(self, number: int) -> Tokens:
        epoch, index = divmod(number, self._count)
        return self._window(scattered(index, self._count, self._seed * 1_000_003 + epoch))

    def held_out(self, index: int) -> Tokens:
        return self._window(self._count + index)


class Text(Samples):
    """Documents of text files, tokenized when they are needed: one line each, or the key "text" of a line of JSON."""

    def __init__(
        self, files: Sequence[Path], encode: Callable[[str], list[int]], length: int, seed: int, *, batch: int
    ) -> None:
        self.name = ", ".join(str(file) for file in files)
        self._files, self._encode, self._length, self._seed, self._batch = files, encode, length, seed, batch
        self._maps = [np.memmap(file, np.uint8, "r") for file in files if file.stat().st_size]
        self._ends = [np.append(np.flatnonzero(content == 10), len(content)) for content in self._maps]
        self._sizes = np.cumsum([len(ends) for ends in self._ends])
        if not self._maps:
            raise DataError(f"{self.name}: the files are empty: give text")
        # By sample of the batch: rounds of documents read, tokens read in the next.
        self._next: dict[int, list[int]] = {}
        self._cached: dict[int, tuple[int, list[int]]] = {}

    def _document(self, number: int) -> list[int]:
        count = int(self._sizes[-1])
        epoch, index = divmod(number, count)
        place = scattered(index, count, self._seed * 1_000_003 + epoch)
        file = int(np.searchsorted(self._sizes, place, "right"))
        line = place - (int(self._sizes[file - 1]) if file else 0)
        ends = self._ends[file]
        raw = bytes(self._maps[file][int(ends[line - 1]) + 1 if line else 0 : int(ends[line])])
        where = f"{self._files[file]}, line {line + 1}"
        try:
            text = raw.decode("utf-8")
            if self._files[file].suffix == ".jsonl" and text.strip():
                text = json.loads(text)["text"]
                if not isinstance(text, str):
                    raise TypeError(f"text is {type(text).__name__}")
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f'{where}: expected UTF-8 and, in .jsonl, {{"text": "..."}}; found {error!r}') from error
        return self._encode(text) if text.strip() else []

    def sample(self, number: int) -> Tokens:
        slot = number % self._batch
        turn, offset = self._next.get(slot, [0, 0])
        tokens: list[int] = []
        empty = 0
        while len(tokens) <= self._length:
            document = turn * self._batch + slot
            if self._cached.get(slot, (-1, []))[0] != document:
                self._cached[slot] = document, self._document(document)
            ids = self._cached[slot][1]
            piece = ids[offset : offset + self._length + 1 - len(tokens)]
            tokens += piece
            offset += len(piece)
            if offset >= len(ids):
                turn, offset = turn + 1, 0
            empty = 0 if ids else empty + 1
            if empty > int(self._sizes[-1]):
                raise DataError(f"{self.name}: no line has text: give text")
        self._next[slot] = [turn, offset]
        return np.array(tokens, np.int64)

    def position(self) -> dict[str, list[int]]:
        return {str(slot): list(place) for slot, place in self._next.items()}

    def go_to(self, position: dict[str, list[int]]) -> None:
        """Continue from positions that a checkpoint has."""
        self._next = {int(slot): list(place) for slot, place in position.items()}


def keep_order(samples: Samples, run: dict[str, Any], evaluated: int, group: int) -> int:
    """Give samples the order that a checkpoint's run has: the same shards, of which the same are held out.

    Returns how many of them an evaluation can use: at most `evaluated`, a multiple of `group`.

    Raises:
        DataError: the shards have changed, or too few are held out.
    """
    checksum = run.get("checksum", samples.checksum)
    if run["data"] == samples.name and checksum != samples.checksum:
        raise DataError(
            f"{samples.name} has other shards than the checkpoint's run: give the same data, or put the new data into "
            "a folder of another name"
        )
    if not isinstance(samples, Windows) or checksum != samples.checksum:
        return evaluated
    samples.hold(run.get("held", samples.held))
    usable = min(evaluated, samples.held)
    usable -= usable % group
    if evaluated and not usable:
        raise DataError(
            f"--eval-every: the checkpoint's run holds out {samples.held} samples, too few for processes x "
            f"--micro-batch = {group}: give --eval-data, or a smaller --micro-batch"
        )
    return usable


def open_samples(
    given: Sequence[Path], tokenizer: Path | None, *, vocabulary: int, length: int, seed: int, batch: int, held: int
) -> Samples:
    """Samples of a folder of token shards, of text files, or, if nothing is given, generated.

    Raises:
        DataError: missing or damaged data, or another vocabulary than the model's.
    """
    if not given:
        return Generated(vocabulary, length, seed)
    if len(given) == 1 and (given[0].is_dir() or not given[0].suffix):
        try:
            checksum = sha256_of(tokenizer) if tokenizer else None
            return Windows(TokenShards.open(given[0], vocabulary, checksum), length, seed, held=held)
        except (ShardError, OSError) as error:
            raise DataError(str(error)) from error
    for file in given:
        if file.suffix not in (".txt", ".jsonl") or not file.is_file():
            raise DataError(f"--data {file}: give a folder of token shards, or existing files named .txt or .jsonl")
    if tokenizer is None:
        raise DataError("--data has text: give its --tokenizer, a tokenizer.json or a SentencePiece .model")
    try:
        known, encode = describe(tokenizer, ""), load_tokenizer(tokenizer)[0]
    except PrepareError as error:
        raise DataError(f"--tokenizer {error}") from error
    if known.vocabulary > vocabulary:
        raise DataError(
            f"--tokenizer {tokenizer} has {known.vocabulary} tokens, the model {vocabulary}: give the model's "
            "tokenizer, or a configuration with a larger vocabulary"
        )
    return Text(given, lambda text: [*encode(text), known.end_of_text], length, seed, batch=batch)

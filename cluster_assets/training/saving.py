"""Asynchronous distributed checkpoints: written while training goes on, published when all ranks have written theirs.

A checkpoint is copied to CPU memory during the next step, then written and hashed by threads. Any number of processes
can load it. The folder also has `run.json`: the model's sizes, the data and the position in it.
"""

from __future__ import annotations

import json
import shutil
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import checkpoint
import torch
import torch.distributed as dist
from llama import LlamaConfig
from torch import nn
from torch.distributed.checkpoint import FileSystemWriter, async_save, load
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

RUN = "run.json"


class CheckpointError(Exception):
    """A checkpoint that cannot be loaded or written: what was found, what to do."""


def compare(found: dict[str, Any], config: LlamaConfig, path: Path) -> None:
    """Raise CheckpointError if a checkpoint's `run.json` is of a model with other sizes."""
    wanted, stored = asdict(config), found.get("model", {})
    if differing := [name for name in wanted if stored.get(name) != wanted[name]]:
        listed = ", ".join(f"{name} {stored.get(name)} instead of {wanted[name]}" for name in differing)
        raise CheckpointError(
            f"{path} is of another model: {listed}. Give its --config, or another folder for checkpoints; nothing was "
            "loaded or changed"
        )


class Stager(DefaultStager):  # type: ignore[misc, unused-ignore]
    """Copies every checkpoint to the same pinned memory.

    PyTorch 2.11 closes the inner stager after each copy, and it cannot copy again (staging.py, DefaultStager._stage).
    """

    def __init__(self, options: StagingOptions) -> None:
        super().__init__(options)
        self._state_dict_stager.close = lambda: None


class Checkpoints:
    """Writes and loads the checkpoints of one process among many."""

    def __init__(
        self, folder: Path, *, keep: int, owner: str, model: nn.Module, optimizer: torch.optim.Optimizer
    ) -> None:
        self.folder, self.keep, self.owner = folder, keep, owner
        self.model, self.optimizer = model, optimizer
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.blocked = 0.0  # seconds that training waited for checkpoints
        self._group = dist.new_group(backend="gloo")  # for the writing threads
        self._answers = dist.new_group(backend="gloo")
        on_gpu = torch.cuda.is_available()
        self._stager = Stager(StagingOptions(on_gpu, False, on_gpu, on_gpu))
        self._thread = ThreadPoolExecutor(1)
        self._staged: Any = None
        self._writing: Future[checkpoint.Files] | None = None
        self._what: tuple[int, bool, Path] = (0, False, folder)

    def candidates(self, first: Path | None) -> list[checkpoint.Checkpoint]:
        """Complete checkpoints, in the order in which to try them, the same on all ranks: `first`, then the newest.

        Raises:
            CheckpointError: `first` is not a complete checkpoint.
        """
        found: list[Any] = []
        if self.rank == 0:
            found = list(checkpoint.complete(self.folder))
            if first is not None:
                given = checkpoint.read(first)
                found = [given, *(one for one in found if given and one.path != given.path)]
        dist.broadcast_object_list(box := [found], src=0, group=self._answers)
        if box[0] and box[0][0] is None:
            raise CheckpointError(
                f"{first} is not a complete checkpoint: give one with a manifest.json whose files all exist, or nothing"
            )
        return list(box[0])

    def resume(self, first: Path | None, config: LlamaConfig) -> tuple[checkpoint.Checkpoint, dict[str, Any]] | None:
        """Load the first candidate that all ranks together find undamaged. Returns it and its run.json."""
        for candidate in self.candidates(first):
            bad: list[Any] = [None] * self.world
            mine = checkpoint.damaged(candidate, share=self.rank, shares=self.world)
            dist.all_gather_object(bad, mine, group=self._answers)
            if names := [name for part in bad for name in part]:
                self._say(f"{candidate.path} is damaged ({', '.join(names)}): skipped")
                continue
            try:
                found = json.loads((candidate.path / RUN).read_text())
            except (OSError, ValueError) as error:
                raise CheckpointError(
                    f"{candidate.path} has no {RUN} that can be read ({error}): another program wrote it. Give another "
                    "folder for checkpoints"
                ) from error
            compare(found, config, candidate.path)
            state = self._state()
            load(state, checkpoint_id=candidate.path, process_group=self._group)
            set_state_dict(
                self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
            )
            return candidate, found
        return None

    def start(self, step: int, run: dict[str, Any], *, final: bool) -> None:
        """Begin to write a checkpoint; `wait_staged` before the weights change, `finish` before the next `start`."""
        started = time.monotonic()
        prepared = checkpoint.partial(self.folder, step, self.owner)
        problem = None
        if self.rank == 0:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                checkpoint.discard(self.folder, self.owner)
                prepared.mkdir()
                (prepared / RUN).write_text(json.dumps(run, indent=1) + "\n")
            except OSError as error:
                problem = error
        dist.broadcast_object_list(box := [problem], src=0, group=self._answers)
        self._what = step, final, prepared
        if box[0] is None:
            if torch.cuda.is_available():
                torch.cuda.synchronize()  # the copies use a stream of their own
            writer = FileSystemWriter(prepared, thread_count=2 if torch.cuda.is_available() else 1)
            saving = async_save(
                self._state(), storage_writer=writer, process_group=self._group, async_stager=self._stager
            )
            self._staged = getattr(saving, "staging_completion", None)
            self._writing = self._thread.submit(self._write, getattr(saving, "upload_completion", saving), prepared)
        else:
            self._writing = Future()
            self._writing.set_exception(box[0])
        self.blocked += time.monotonic() - started

    def wait_staged(self) -> None:
        """Wait until the copy to CPU memory is complete: the next optimizer step changes the weights."""
        if self._staged is not None:
            started = time.monotonic()
            self._staged.exception()  # waits; `finish` reports a failure
            self._staged = None
            self.blocked += time.monotonic() - started

    def _write(self, saving: Future[Any], prepared: Path) -> checkpoint.Files:
        saving.result()
        return {
            path.name: checkpoint.sync_and_hash(path)
            for path in prepared.iterdir()
            if path.name.startswith(f"__{self.rank}_") or (self.rank == 0 and path.name in (".metadata", RUN))
        }

    @property
    def active(self) -> bool:
        """Whether a checkpoint was started and not finished."""
        return self._writing is not None

    @property
    def step(self) -> int:
        """Step of the checkpoint that was started last."""
        return self._what[0]

    @property
    def written(self) -> bool:
        """Whether this rank's part of the active checkpoint is complete, or failed."""
        return self._writing is not None and self._writing.done()

    def finish(self) -> str | None:
        """Publish the active checkpoint; all ranks call this. Returns why it failed, or None."""
        if self._writing is None:
            return None
        started = time.monotonic()
        self.wait_staged()
        step, final, prepared = self._what
        error = self._writing.exception()  # waits; a full disk, or anything else of a rank
        mine = self._writing.result() if error is None else _reason(error)
        self._writing = None
        answers: list[Any] = [None] * self.world
        dist.all_gather_object(answers, mine, group=self._answers)
        failed: str | None = next((one for one in answers if isinstance(one, str)), None)
        if self.rank == 0:
            try:
                if failed is None:
                    files = {name: one for part in answers for name, one in part.items()}
                    target = self.folder / checkpoint.name_of(step)
                    checkpoint.publish(prepared, target, files, step=step, final=final)
                    self._say(f"wrote {target}{' (final)' if final else ''}")
            except (OSError, ValueError) as error:
                failed = str(error)
            if failed is not None:
                shutil.rmtree(prepared, ignore_errors=True)
                free = shutil.disk_usage(self.folder if self.folder.is_dir() else self.folder.parent).free
                failed = (
                    f"the checkpoint of step {step} was not written: {failed}. {self.folder} has {free / 2**30:.1f} "
                    "GiB free; older checkpoints are unchanged. Make room (--keep keeps fewer), or give another folder"
                )
            else:
                self._thread.submit(self._prune)  # 15 GB took 4 to 5 s to remove
        dist.broadcast_object_list(box := [failed], src=0, group=self._answers)
        self.blocked += time.monotonic() - started
        return box[0]

    def _prune(self) -> None:
        try:
            checkpoint.prune(self.folder, self.keep)
        except OSError as error:
            self._say(f"WARNING: old checkpoints were not removed: {error}")

    def close(self) -> None:
        """Wait until old checkpoints are removed."""
        self._thread.shutdown()

    def gather(self, position: dict[str, list[int]]) -> dict[str, list[int]]:
        """The data positions of all ranks together."""
        parts: list[Any] = [None] * self.world
        dist.all_gather_object(parts, position, group=self._answers)
        return {slot: place for part in parts for slot, place in part.items()}

    def _state(self) -> dict[str, Any]:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}

    def _say(self, text: str) -> None:
        if self.rank == 0:
            print(f"train.py: {text}", flush=True)


def _reason(error: BaseException) -> str:
    """The first cause. DCP's exception holds the exceptions of all ranks that failed."""
    if failures := getattr(error, "failures", None):
        error = next(iter(failures.values()))[0]
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error) if isinstance(error, OSError) else repr(error)

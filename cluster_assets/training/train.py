"""Trains a small byte model on one or many nodes, with checkpoints, resume, and a stop on request; for torchrun.

NCCL with GPUs, gloo without. After SIGUSR1 to any process, a checkpoint is written at the end of the step and the
program exits with status 0; the checkpoint is not final, so the job is requeued. (For any other status torchrun kills
the other processes and exits with 1.)

An example for the jobs and their tests: all but the model is what a real run needs.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint import load, save
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).resolve().parent))
import checkpoint
from model import VOCABULARY, ByteModel, Samples

_stop = False


def request_stop(_signal: int, _frame: FrameType | None) -> None:
    """Request a checkpoint and the end; the loop checks after each step."""
    global _stop  # noqa: PLW0603 -- a signal handler has nothing else to write to
    _stop = True


def parser() -> argparse.ArgumentParser:
    """The command line. Folders default to those that the jobs export."""
    top = argparse.ArgumentParser(prog="train.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    top.add_argument("--mode", choices=("ddp", "fsdp"), default="ddp", help="copies or shards of the model")
    top.add_argument("--steps", type=int, default=200, help="total steps, including those before a restart")
    top.add_argument("--batch", type=int, default=16, help="samples per step, over all processes")
    top.add_argument("--length", type=int, default=64, help="bytes per sample")
    top.add_argument("--width", type=int, default=64, help="width of the model, a multiple of --heads")
    top.add_argument("--layers", type=int, default=2)
    top.add_argument("--heads", type=int, default=4)
    top.add_argument("--rate", type=float, default=1e-3, help="learning rate")
    top.add_argument("--seed", type=int, default=1)
    top.add_argument("--text", type=Path, help="training text (default: generated)")
    folder = os.environ.get("CHECKPOINT_DIR")
    top.add_argument("--checkpoints", type=Path, default=folder, help="folder (default: $CHECKPOINT_DIR)")
    top.add_argument("--every", type=int, default=50, help="steps between two checkpoints")
    top.add_argument("--keep", type=int, default=3, help="complete checkpoints to keep")
    top.add_argument("--metrics", type=Path, help="file for one line of JSON per step, written by the first process")
    top.add_argument("--step-seconds", type=float, default=0.0, help="minimum time of a step, to test failures")
    top.add_argument("--timeout", type=int, default=600, help="seconds that a process waits for the others")
    return top


def check(options: argparse.Namespace, world: int) -> None:
    """Refuse invalid options before anything starts."""
    for name in ("steps", "batch", "length", "width", "layers", "heads", "every", "keep", "timeout"):
        if getattr(options, name) < 1:
            raise SystemExit(f"train.py: --{name} {getattr(options, name)}: give 1 or more")
    if options.width % options.heads:
        raise SystemExit(f"train.py: --width {options.width} is not a multiple of --heads {options.heads}")
    if options.batch % world:
        raise SystemExit(f"train.py: --batch {options.batch} cannot be divided by {world} processes: give a multiple")
    if options.checkpoints is None:
        raise SystemExit("train.py: no folder for checkpoints: give --checkpoints, or set CHECKPOINT_DIR")


class Run:
    """One process of the training."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.owner = os.environ.get("SLURM_JOB_ID", "alone")
        local = int(os.environ.get("LOCAL_RANK", "0"))
        self.device = torch.device("cuda", local) if torch.cuda.is_available() else torch.device("cpu")
        self.samples = Samples(options.text, length=options.length, seed=options.seed)
        torch.manual_seed(options.seed)  # the same weights in every process
        model = ByteModel(width=options.width, layers=options.layers, heads=options.heads, length=options.length)
        self.model: nn.Module = model.to(self.device)
        if options.mode == "fsdp":
            for block in model.blocks:
                fully_shard(block)
            fully_shard(model)
        else:
            ids = [local] if self.device.type == "cuda" else None
            self.model = DistributedDataParallel(model, device_ids=ids)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=options.rate)
        self.step = 0

    def say(self, text: str) -> None:
        """Print on the first process."""
        if self.rank == 0:
            print(f"train.py: {text}", flush=True)

    def resume(self) -> bool:
        """Load the newest complete checkpoint, verified by all processes together. Returns whether it is final."""
        found: list[checkpoint.Checkpoint] = list(checkpoint.whole(self.options.checkpoints)) if self.rank == 0 else []
        box: list[Any] = [found]
        dist.broadcast_object_list(box, src=0)
        for candidate in box[0]:
            bad = checkpoint.damaged(candidate, share=self.rank, shares=self.world)
            everywhere: list[Any] = [None] * self.world
            dist.all_gather_object(everywhere, bad)
            if names := [name for part in everywhere for name in part]:
                self.say(f"{candidate.path} is damaged ({', '.join(names)}): skipped")
                continue
            state = self._state()
            load(state, checkpoint_id=candidate.path)
            set_state_dict(
                self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
            )
            self.step = candidate.step
            self.say(f"resumed from {candidate.path}")
            return bool(candidate.final)
        self.say("no complete checkpoint, starting at step 0")
        return False

    def save(self, *, final: bool) -> None:
        """Write a checkpoint: every process its shard, the first one the manifest at the end."""
        folder: Path = self.options.checkpoints
        prepared = checkpoint.partial(folder, self.step, self.owner)
        if self.rank == 0:
            folder.mkdir(parents=True, exist_ok=True)
            checkpoint.discard(folder, self.owner)
            prepared.mkdir()
        dist.barrier()
        save(self._state(), checkpoint_id=prepared)
        mine = {
            path.name: checkpoint.seal(path)
            for path in prepared.iterdir()
            if path.name.startswith(f"__{self.rank}_") or (self.rank == 0 and path.name == ".metadata")
        }
        everywhere: list[Any] = [None] * self.world
        dist.all_gather_object(everywhere, mine)
        if self.rank == 0:
            files = {name: one for part in everywhere for name, one in part.items()}
            target = folder / checkpoint.name_of(self.step)
            checkpoint.publish(prepared, target, files, step=self.step, final=final)
            checkpoint.prune(folder, self.options.keep)
            self.say(f"wrote {target}{' (final)' if final else ''}")
        dist.barrier()

    def train(self) -> None:
        """Train to the last step, or until a stop is requested."""
        share = self.options.batch // self.world
        while self.step < self.options.steps:
            started = time.monotonic()
            inputs, wanted = self.samples.batch(self.step, self.rank * share, share, self.options.batch)
            logits = self.model(inputs.to(self.device))
            loss = functional.cross_entropy(logits.view(-1, VOCABULARY), wanted.to(self.device).reshape(-1))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.step += 1
            # One all_reduce shares the loss and any stop request: all processes stop after the same step.
            shared = torch.stack([loss.detach(), torch.tensor(float(_stop), device=self.device)])
            dist.all_reduce(shared)
            self._report(float(shared[0]) / self.world, time.monotonic() - started)
            if float(shared[1]) > 0 and self.step < self.options.steps:
                self.save(final=False)
                self.say(f"stopped on request after step {self.step}")
                return
            if self.step % self.options.every == 0 and self.step < self.options.steps:
                self.save(final=False)
            time.sleep(max(0.0, self.options.step_seconds - (time.monotonic() - started)))
        self.save(final=True)

    def _report(self, loss: float, seconds: float) -> None:
        if self.rank:
            return
        if self.step % 10 == 0 or self.step == self.options.steps:
            self.say(f"step {self.step} loss {loss:.4f}")
        if self.options.metrics:
            line = {"step": self.step, "loss": loss, "seconds": round(seconds, 4), "processes": self.world}
            with self.options.metrics.open("a") as file:
                file.write(json.dumps(line) + "\n")

    def _state(self) -> dict[str, Any]:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}


def main(arguments: list[str]) -> int:
    """Train, or resume."""
    options = parser().parse_args(arguments)
    check(options, int(os.environ.get("WORLD_SIZE", "1")))
    # nccl-lint: allow RANK -- only for a single process started without torchrun
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29400"}.items():
        os.environ.setdefault(name, value)
    signal.signal(signal.SIGUSR1, request_stop)
    torch.use_deterministic_algorithms(mode=True, warn_only=True)
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, timeout=timedelta(seconds=options.timeout))
    run = Run(options)
    run.say(f"{options.mode} on {run.world} processes, {backend}")
    if run.resume():
        run.say("the run is already complete")
    else:
        run.train()
    if backend == "gloo":
        # Without destructors: gloo's process group can deadlock at its end, because its destructor holds the GIL and
        # joins a thread that needs it (PyTorch 2.13).
        dist.barrier()
        sys.stdout.flush()
        os._exit(0)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

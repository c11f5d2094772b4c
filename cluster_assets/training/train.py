"""Trains Llama 3 with FSDP2 on one or many nodes, with checkpoints, resume, and a stop on request; for torchrun.

NCCL with GPUs, gloo without. After SIGUSR1 to any process, a checkpoint is written after the running step and the
program exits with status 0; the checkpoint is not final, so the job is requeued. (For any other status torchrun kills
the other processes and exits with 1.)

Model FLOPs utilisation (MFU) is tokens/s x FLOPs per token / (GPUs x FLOP/s of one GPU in bf16, without sparsity).
FLOPs per token are 6 x (parameters in matrix products) + 6 x layers x width x length: the input embedding is not
counted, attention is counted as causal, recomputed activations are not counted. See docs/training.md.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.insert(0, str(Path(__file__).resolve().parent))
import progress
from llama import HeadLoss, Llama, LlamaConfig, loss_and_gradient, to_float8
from metrics import MetricsLog
from samples import DataError, Text, keep_order, open_samples
from saving import CheckpointError, Checkpoints
from train_options import PEAKS, check, learning_rate, parser
from weights import read_weights

ATTENTION = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
_stop = False


class DivergedError(Exception):
    """A loss or gradients that are not finite."""


def request_stop(_signal: int, _frame: FrameType | None) -> None:
    """Request a checkpoint and the end; the loop checks in each step."""
    global _stop  # noqa: PLW0603 -- a signal handler has nothing else to write to
    _stop = True


class Run:
    """One process of the training."""

    def __init__(self, options: argparse.Namespace, config: LlamaConfig) -> None:
        self.options, self.config = options, config
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        local = int(os.environ.get("LOCAL_RANK", "0"))
        self.device = torch.device("cuda", local) if torch.cuda.is_available() else torch.device("cpu")
        held = options.eval_samples if options.eval_every and not options.eval_data else 0
        wanted = {"vocabulary": config.vocabulary, "length": options.length, "seed": options.seed}
        self.samples = open_samples(options.data, options.tokenizer, **wanted, batch=options.batch, held=held)
        self.held_out = self.samples
        if options.eval_data:
            held = options.eval_samples
            self.held_out = open_samples([options.eval_data], options.tokenizer, **wanted, batch=1, held=held)
        if options.eval_every:
            self.held_out.held_out(0)
        self.model = self._model()
        matrices = [weight for weight in self.model.parameters() if weight.dim() > 1]
        others = [weight for weight in self.model.parameters() if weight.dim() == 1]
        self.optimizer = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": options.weight_decay}, {"params": others, "weight_decay": 0.0}],
            lr=options.rate,
            betas=(0.9, 0.95),
            fused=self.device.type == "cuda",
        )
        owner = os.environ.get("SLURM_JOB_ID", "alone")
        self.checkpoints = Checkpoints(
            options.checkpoints, keep=options.keep, owner=owner, model=self.model, optimizer=self.optimizer
        )
        self._flags = dist.new_group(backend="gloo")
        self.parameters = sum(weight.numel() for weight in self.model.parameters())
        self.flops = config.flops_per_token(self.parameters, options.length)
        name = torch.cuda.get_device_name() if self.device.type == "cuda" else ""
        by_name = next((peak for part, peak in PEAKS.items() if part in name), None)
        self.peak = options.peak * 1e12 if options.peak else by_name
        self.step, self.first_sample = 0, 0
        self._losses: list[Tensor] = []
        self._norm: Any = 0.0
        self._reported, self._blocked = time.monotonic(), 0.0
        self._usual = 0.0  # seconds a step without a checkpoint
        self._failures = 0
        self._log = MetricsLog(options.metrics) if self.rank == 0 else None

    def _model(self) -> Llama:
        options = self.options
        with torch.device("meta"):
            model = Llama(self.config)
        if options.float8:
            to_float8(model, self.device)
        for number, block in enumerate(model.model.layers):
            block.recompute = bool(options.recompute) and number % options.recompute == 0
            if options.compile:
                block.compile(fullgraph=True)
        if options.compile:
            HeadLoss.compute = torch.compile(loss_and_gradient)
        shape = (options.replicas, self.world // options.replicas)
        mesh = init_device_mesh(self.device.type, shape, mesh_dim_names=("replica", "shard"))
        low = torch.bfloat16 if options.precision == "bf16" else torch.float32
        # Inputs are not cast: the rotary tables stay in float32.
        policy = MixedPrecisionPolicy(param_dtype=low, reduce_dtype=torch.float32, cast_forward_inputs=False)
        sharding: dict[str, Any] = {"mesh": mesh if options.replicas > 1 else mesh["shard"], "mp_policy": policy}
        for block in model.model.layers:
            fully_shard(block, **sharding, reshard_after_forward=shape[1] > 1)
        fully_shard(model, **sharding)
        model.to_empty(device=self.device)
        if options.weights:
            read_weights(model, options.weights, self.config)
        else:
            model.initialise(options.seed)
        return model

    def say(self, text: str) -> None:
        """Print on the first process."""
        if self.rank == 0:
            print(f"train.py: {text}", flush=True)

    def resume(self) -> bool:
        """Load RESUME_FROM, or the newest complete checkpoint. Returns whether it is final."""
        first = os.environ.get("RESUME_FROM")
        loaded = self.checkpoints.resume(Path(first) if first else None, self.config)
        if loaded is None:
            self.say("no complete checkpoint, starting at step 0")
            return False
        found, run = loaded
        self.step, self.first_sample = found.step, run["samples"]
        if found.step > self.options.steps or (found.final and found.step < self.options.steps):
            raise CheckpointError(
                f"--steps {self.options.steps}: {found.path} {'ended' if found.final else 'belongs to'} a run at step "
                f"{found.step}. Give {found.step}{'' if found.final else ' or more'}, or another --experiment, with "
                "--weights exported by weights.py"
            )
        own = self.options.eval_samples if self.options.eval_every and not self.options.eval_data else 0
        usable = keep_order(self.samples, run, own, self.world * self.options.micro_batch)
        if usable != own:
            self.say(f"WARNING: {usable} samples are evaluated; the checkpoint's run holds out {self.samples.held}")
            self.options.eval_samples = usable
        for name in ("data", "seed", "length", "batch"):
            if run[name] != self._run()[name]:
                if name == "batch" and run["position"]:
                    raise DataError(
                        f"--batch {self.options.batch}, the checkpoint's is {run['batch']}: the positions in text "
                        "files depend on it. Give the same, or prepare token shards"
                    )
                self.say(f"WARNING: {name} is {self._run()[name]}, at the checkpoint it was {run[name]}")
        if isinstance(self.samples, Text):
            self.samples.go_to(run["position"])
        self.say(f"resumed from {found.path}")
        return found.final

    def _run(self) -> dict[str, Any]:
        """The run's entry in a checkpoint."""
        given, data = self.options, self.samples
        settings = {"batch": given.batch, "length": given.length, "seed": given.seed, "processes": self.world}
        known = {"data": data.name, "checksum": data.checksum, "held": data.held, "samples": self.first_sample}
        return {"model": asdict(self.config), **settings, **known}

    def _batch(self, first: int) -> tuple[Tensor, dict[str, list[int]]]:
        """This process's samples of a step, and the position in the data after them."""
        share = self.options.batch // self.world
        numbers = range(first + self.rank * share, first + (self.rank + 1) * share)
        rows = torch.from_numpy(np.stack([self.samples.sample(number) for number in numbers]))
        mine = {str(number % self.options.batch) for number in numbers}
        position = {slot: place for slot, place in self.samples.position().items() if slot in mine}
        return rows.pin_memory() if self.device.type == "cuda" else rows, position

    def train(self) -> None:
        """Train to the last step, or until a stop is requested, and write the last checkpoint."""
        position = self.advance(self.options.steps)
        done = self.step == self.options.steps
        self._save(position, final=done)
        self._finish(must=True)
        if not done:
            self.say(f"stopped on request after step {self.step}")

    def advance(self, until: int) -> dict[str, list[int]]:
        """Train to a step, or until a stop is requested. Returns the position in the data."""
        options = self.options
        pieces = options.batch // self.world // options.micro_batch
        pending: tuple[Any, Tensor, int] | None = None
        stop, position = False, self.samples.position()
        with ThreadPoolExecutor(1) as reader:
            following = reader.submit(self._batch, self.first_sample)
            self._reported, self._blocked = time.monotonic(), self.checkpoints.blocked
            while self.step < until and not stop:
                started = time.monotonic()
                samples, position = following.result()
                if self.step + 1 < until:
                    following = reader.submit(self._batch, self.first_sample + options.batch)
                rows = samples.to(self.device, non_blocking=True)
                losses = []
                for part in rows.split(options.micro_batch):
                    loss = self.model(part[:, :-1], part[:, 1:]) / pieces
                    loss.backward()
                    losses.append(loss.detach())
                limit = options.clip or float("inf")
                self._norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit, foreach=True)
                for group in self.optimizer.param_groups:
                    group["lr"] = learning_rate(options, self.step)
                self.checkpoints.wait_staged()
                self.optimizer.step()
                self.optimizer.zero_grad()
                self._losses.append(torch.stack(losses).sum())
                self.step += 1
                self.first_sample += options.batch
                progress.report(self.step)
                # The processes agree on a stop and on a written checkpoint one step later, so that no CPU waits here.
                stop, written = self._agreed(pending)
                last = self.step == until or stop
                pending = None if last else self._ask()
                due = self.step % options.every == 0 and not last
                evaluate = bool(options.eval_every) and (self.step % options.eval_every == 0 or self.step == until)
                # Also before a checkpoint is published: the loss after it must be finite.
                if evaluate or due or last or written or self.step % options.report == 0:
                    self._report(evaluate=evaluate)
                if written:
                    self._finish()
                if due:
                    self._save(position, final=False)
                time.sleep(max(0.0, options.step_seconds - (time.monotonic() - started)))
        return position

    def _ask(self) -> tuple[Any, Tensor, int]:
        flags = torch.tensor([int(_stop), int(self.checkpoints.written)])
        return dist.all_reduce(flags, group=self._flags, async_op=True), flags, self.checkpoints.step

    def _agreed(self, pending: tuple[Any, Tensor, int] | None) -> tuple[bool, bool]:
        """Whether any process was asked to stop, and whether all have written the active checkpoint."""
        if pending is None:
            return False, False
        pending[0].wait()
        return bool(pending[1][0]), int(pending[1][1]) == self.world and pending[2] == self.checkpoints.step

    def _save(self, position: dict[str, list[int]], *, final: bool) -> None:
        self._finish()
        where = self.checkpoints.gather(position) if position else {}
        self.checkpoints.start(self.step, {**self._run(), "position": where}, final=final)

    def _finish(self, *, must: bool = False) -> None:
        """Publish the active checkpoint. One that cannot be written ends the run if it must be, or is the second."""
        if not self.checkpoints.active:
            return
        # As long as a process waits for the others: beyond that the watchdog may act.
        limit = time.monotonic() + self.options.timeout
        while not self.checkpoints.written and time.monotonic() < limit:
            progress.report(self.step)
            time.sleep(0.05)
        failed = self.checkpoints.finish()
        self._failures = self._failures + 1 if failed else 0
        if failed and (must or self._failures > 1):
            raise CheckpointError(failed)
        if failed:
            self.say(f"WARNING: {failed}. Training goes on to the next checkpoint")

    def _report(self, *, evaluate: bool) -> None:
        """Metrics of the steps since the last report. Waits for the GPU."""
        losses = torch.stack(self._losses)
        dist.all_reduce(losses)
        values = (losses / self.world).tolist()
        norm = float(self._norm.full_tensor() if hasattr(self._norm, "full_tensor") else self._norm)
        first = self.step - len(values) + 1
        bad = next((at for at, value in enumerate(values) if not math.isfinite(value)), None)
        if bad is not None or not math.isfinite(norm):
            what = f"the norm of the gradients of step {self.step} is {norm}"
            what = what if bad is None else f"the loss of step {first + bad} is {values[bad]}"
            raise DivergedError(
                f"{what}: give a lower --rate, or --clip. Nothing of the steps from {first} on was written; older "
                "checkpoints are unchanged"
            )
        now = time.monotonic()
        seconds = (now - self._reported) / len(values)
        tokens = self.options.batch * self.options.length / seconds
        lost = self.checkpoints.blocked - self._blocked
        if lost or self.checkpoints.active:
            lost = max(lost, (seconds - self._usual) * len(values)) if self._usual else lost
        else:
            self._usual = seconds
        common = {
            "tokens_per_second": round(tokens, 1),
            "mfu": round(tokens * self.flops / (self.world * self.peak), 4) if self.peak else None,
            "memory_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2) if self.device.type == "cuda" else None,
            "seconds": round(seconds, 4),
            "time": round(time.time(), 3),
            "checkpoint_seconds": round(lost, 3),
            "gradient_norm": round(norm, 4),
            "processes": self.world,
        }
        lines = [{"step": first + at, "loss": value, **common} for at, value in enumerate(values)]
        for line in lines:
            line["learning_rate"] = learning_rate(self.options, int(line["step"]) - 1)
        if evaluate:
            lines[-1]["evaluation_loss"] = self._evaluate()
        self._losses.clear()
        gc.collect(1)
        self._reported, self._blocked = time.monotonic(), self.checkpoints.blocked
        shown = "" if common["mfu"] is None else f" mfu {common['mfu']:.1%} memory {common['memory_gib']} GiB"
        tested = f" evaluation loss {lines[-1]['evaluation_loss']:.4f}" if evaluate else ""
        self.say(f"step {self.step} loss {values[-1]:.4f} {tokens:,.0f} tokens/s{shown}{tested}")
        if self._log:
            self._log.write(lines)

    def _evaluate(self) -> float:
        """Mean loss of the held-out samples, a multiple of world x micro-batch."""
        size, group = self.options.micro_batch, self.world * self.options.micro_batch
        total = torch.zeros((), device=self.device)
        self.model.eval()
        with torch.no_grad():
            for first in range(self.rank * size, self.options.eval_samples, group):
                rows = torch.from_numpy(np.stack([self.held_out.held_out(first + at) for at in range(size)]))
                rows = rows.to(self.device)
                total += self.model(rows[:, :-1], rows[:, 1:])
                progress.report(self.step)
        self.model.train()
        dist.all_reduce(total)
        return float(total.item() * size / self.options.eval_samples)


def main(arguments: list[str]) -> int:
    """Train, or resume."""
    options = parser(__doc__ or "").parse_args(arguments)
    config = check(options, int(os.environ.get("WORLD_SIZE", "1")))
    # nccl-lint: allow RANK -- only for a single process started without torchrun
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29400"}.items():
        os.environ.setdefault(name, value)
    signal.signal(signal.SIGUSR1, request_stop)
    on_gpu = torch.cuda.is_available()
    options.precision = options.precision or ("bf16" if on_gpu else "fp32")
    options.compile = on_gpu if options.compile is None else options.compile
    if options.deterministic:
        # The call imports the compiler, even to switch it off: 0.4 s of CPU time (PyTorch 2.13).
        torch.use_deterministic_algorithms(True, warn_only=True)
    if on_gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    backend = "cpu:gloo,cuda:nccl" if on_gpu else "gloo"
    dist.init_process_group(backend, timeout=timedelta(seconds=options.timeout))
    status = 0
    try:
        run = Run(options, config)
        run.say(
            f"Llama {options.config}, {run.parameters:,} parameters, on {run.world} processes, {backend}, "
            f"{options.precision}{', float8' if options.float8 else ''}; data: {run.samples.name}"
        )
        gc.disable()  # a collection in one process would stop all others; each report collects
        if run.resume():
            run.say("the run is already complete")
        else:
            with sdpa_kernel(ATTENTION, set_priority=True):
                run.train()
    except (CheckpointError, DataError, DivergedError) as error:
        print(f"train.py: {error}", file=sys.stderr, flush=True)
        status = 1
    if status == 0:
        run.checkpoints.close()
        dist.barrier()
    # Without destructors: gloo's process group can deadlock at its end, because its destructor holds the GIL and joins
    # a thread that needs it (PyTorch 2.13).
    sys.stdout.flush()
    os._exit(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

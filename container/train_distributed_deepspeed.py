"""Fine-tunes a causal language model with DeepSpeed, by default Qwen 2.5 0.5B on WikiText-2.

train-deepspeed.sbatch starts it with torchrun and checks its options first; options, checks and data order are in
fine_tuning.py of the job's scripts ($TRAINING_PROGRAMS). One process downloads weights and prepares tokens, both
kept on the shared file system. The perplexity of the test split is measured before and after the training and of
the exported model. The same experiment resumes from its newest checkpoint. After SIGUSR1 to any process a checkpoint
is written at the end of the step, and the program exits with status 0 without a model.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import signal
import statistics
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import Any

# cuBLAS reads it when it starts: equal losses after a restart need it.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
if "TRAINING_PROGRAMS" not in os.environ:
    sys.exit(
        "TRAINING_PROGRAMS is not set: start this program by train-deepspeed.sbatch, or set it to the"
        " folder training/ of the scripts"
    )
sys.path.insert(0, os.environ["TRAINING_PROGRAMS"])
import checkpoint
import deepspeed
import fine_tuning
import prepare_inputs
import progress
import torch
import torch.distributed as dist
from fine_tuning import Refusal
from token_shards import ShardError, TokenShards
from torch.utils.tensorboard import SummaryWriter
from train_options import PEAKS
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.integrations import HfDeepSpeedConfig

TAG = "deepspeed"  # DeepSpeed's folder in a checkpoint
PREPARATION = timedelta(hours=2)  # others wait so long for a download and for tokens
CONFIGURATIONS = {2: "ds_config.json", 3: "ds_config_zero3.json"}
_stop = False


def request_stop(_signal: int, _frame: FrameType | None) -> None:
    """Request a checkpoint and the end; the loop checks after each step."""
    global _stop
    _stop = True


def say(text: str) -> None:
    """Print on the first process."""
    if int(os.environ["RANK"]) == 0:
        print(f"deepspeed: {text}", flush=True)


class Run:
    """One process of the training."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given, self.rank, self.world = given, dist.get_rank(), dist.get_world_size()
        self.owner = os.environ.get("SLURM_JOB_ID", "alone")
        # On CPUs, and with its own limit: the collectives of the training keep theirs.
        self.control = dist.new_group(backend="gloo", timeout=PREPARATION)
        box: list[Any] = [prepare_inputs.prepare(given) if self.rank == 0 else None]
        dist.broadcast_object_list(box, src=0, group=self.control)
        prepared: dict[str, Any] = box[0]
        self.candidates: list[checkpoint.Checkpoint] = prepared["checkpoints"]
        self.folder, config = prepared["folder"], prepared["weights"].config
        if not self.folder.is_dir():
            raise Refusal(
                f"{self.folder} is not there on {os.uname().nodename}: give a --cache on a shared file system"
            )
        self.splits = {
            name: TokenShards.open(path, vocabulary=config["vocab_size"]) for name, path in prepared["tokens"].items()
        }
        self.samples = len(self.splits["train"]) // given.length
        if not self.samples:
            raise Refusal(
                f"{given.data} has {len(self.splits['train'])} training tokens, --length {given.length}: give less"
            )
        file = given.deepspeed_config or Path(__file__).with_name(CONFIGURATIONS[given.zero])
        self.deepspeed = fine_tuning.deepspeed_config(file, given, self.world)
        self.batch, self.micro = self.deepspeed["train_batch_size"], self.deepspeed["train_micro_batch_size_per_gpu"]
        self.settings = fine_tuning.settings(given, config) | {
            "zero": self.deepspeed["zero_optimization"]["stage"], "processes": self.world, "batch": self.batch,
            "data": [shard.sha256 for shard in self.splits["train"].shards],
        }  # fmt: skip
        for candidate in self.candidates:
            fine_tuning.compare(candidate.path, self.settings)
        self.step, self.before = 0, math.nan
        self.rates: list[float] = []

    def of_all(self, value: Any) -> list[Any]:
        """The values of all processes."""
        everywhere: list[Any] = [None] * self.world
        dist.all_gather_object(everywhere, value, group=self.control)
        return everywhere

    def build(self) -> None:
        """The model in DeepSpeed's engine. With ZeRO-3 transformers creates each process's part only."""
        torch.manual_seed(self.given.seed)
        alive = HfDeepSpeedConfig(self.deepspeed)  # transformers sees it while it lives
        model = AutoModelForCausalLM.from_pretrained(self.folder, dtype=torch.bfloat16)
        del alive
        model.config.use_cache = False
        if self.given.activation_checkpointing:
            model.gradient_checkpointing_enable()
        self.parameters = sum(getattr(one, "ds_numel", one.numel()) for one in model.parameters())
        self.engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=self.deepspeed)
        self.device = self.engine.device
        name = torch.cuda.get_device_name() if self.device.type == "cuda" else ""
        self.peak = next((peak for part, peak in PEAKS.items() if part in name), None)
        self.flops = fine_tuning.flops_per_token(self.parameters, model.config.to_dict(), self.given.length)

    def resume(self) -> bool:
        """Load the newest complete checkpoint, verified by all processes together. Returns whether it is final."""
        for candidate in self.candidates:
            found = self.of_all(checkpoint.damaged(candidate, share=self.rank, shares=self.world))
            if bad := [name for part in found for name in part]:
                say(f"{candidate.path} is damaged ({', '.join(bad)}): skipped")
                continue
            _, state = self.engine.load_checkpoint(str(candidate.path), tag=TAG)
            self.step, self.before = candidate.step, state["before"]
            say(f"resumed from {candidate.path}")
            return bool(candidate.final)
        say("no complete checkpoint, starting at step 0")
        return False

    def wrote(self, name: str) -> bool:
        """Whether this process wrote a checkpoint's file: DeepSpeed puts the number into a part's name."""
        part = re.search(r"zero_pp_rank_(\d+)_", name)
        return int(part.group(1) if part else 0) == self.rank

    def save(self, *, final: bool) -> None:
        """Write a checkpoint: every process its part, the first one the manifest at the end."""
        folder: Path = self.given.checkpoints
        prepared = checkpoint.partial(folder, self.step, self.owner)
        try:
            if self.rank == 0:
                checkpoint.discard(folder, self.owner)
                prepared.mkdir()
                (prepared / fine_tuning.RUN).write_text(json.dumps(self.settings, indent=1) + "\n")
            dist.barrier(group=self.control)
            self.engine.save_checkpoint(str(prepared), tag=TAG, client_state={"before": self.before}, save_latest=False)
            dist.barrier(group=self.control)
            progress.report(self.step)
            mine = [path for path in prepared.rglob("*") if path.is_file() and self.wrote(path.name)]
            parts = self.of_all(
                {path.relative_to(prepared).as_posix(): checkpoint.sync_and_hash(path) for path in mine}
            )
            if self.rank == 0:
                files = {name: one for part in parts for name, one in part.items()}
                target = folder / checkpoint.name_of(self.step)
                checkpoint.publish(prepared, target, files, step=self.step, final=final)
                checkpoint.prune(folder, self.given.keep)
                say(f"wrote {target}{' (final)' if final else ''}")
        except (OSError, RuntimeError, ValueError) as error:
            shutil.rmtree(prepared, ignore_errors=True)
            raise Refusal(
                f"cannot write the checkpoint of step {self.step} to {folder}: {error}. Earlier checkpoints are "
                "unchanged; free space, and the same --experiment resumes from the newest"
            ) from error
        dist.barrier(group=self.control)

    def rows(self, split: str, starts: list[int], length: int) -> torch.Tensor:
        """Tokens from each position."""
        pieces = [torch.from_numpy(self.splits[split].window(start, length).astype("int64")) for start in starts]
        return torch.stack(pieces).to(self.device)

    @torch.no_grad()
    def perplexity(self, model: Any) -> float:
        """Of the test split, each predicted token with the same weight, computed by all processes."""
        batches = fine_tuning.evaluation_batches(len(self.splits["test"]), self.given.length, self.micro)
        sums = torch.zeros(2, dtype=torch.float64, device=self.device)
        model.eval()
        for first in range(0, len(batches), self.world):
            progress.report(self.step)
            # All take part in each round, as ZeRO-3 requires; a batch that does not exist weighs nothing.
            index = first + self.rank
            starts, length = batches[index if index < len(batches) else 0]
            tokens = self.rows("test", starts, length)
            loss = model(input_ids=tokens, labels=tokens).loss.double()
            predicted = len(starts) * (length - 1) if index < len(batches) else 0
            sums += torch.stack([loss * predicted, torch.full_like(loss, predicted)]) if predicted else 0
        model.train()
        dist.all_reduce(sums)
        total, tokens_seen = sums.tolist()
        return math.exp(min(total / tokens_seen, 700.0))

    def train(self) -> bool:
        """Train to the last step; False if a stop was requested before."""
        given, accumulation = self.given, self.engine.gradient_accumulation_steps()
        writer = SummaryWriter(str(given.tensorboard)) if self.rank == 0 else None
        saved, stopping = self.step, False
        while self.step < given.steps and not stopping:
            started, losses = time.monotonic(), torch.zeros((), device=self.device)
            picked = fine_tuning.samples_of_step(self.step, self.batch, self.samples, given.seed)
            for number in range(accumulation):
                first = (number * self.world + self.rank) * self.micro
                tokens = self.rows(
                    "train", [one * given.length for one in picked[first : first + self.micro]], given.length
                )
                loss = self.engine(input_ids=tokens, labels=tokens).loss
                self.engine.backward(loss)
                self.engine.step()
                losses += loss.detach() / accumulation
            # One all_reduce shares the loss and any stop request: all processes stop after the same step.
            shared = torch.stack([losses, torch.full_like(losses, float(_stop))])
            dist.all_reduce(shared)
            loss_of_all, stops = shared.tolist()
            self.step += 1
            self.report(loss_of_all / self.world, time.monotonic() - started, writer)
            stopping = stops > 0
            done = self.step >= given.steps
            if self.step > saved and (stopping or done or self.step % given.save_every == 0):
                self.save(final=done)
                saved = self.step
        if writer is not None:
            writer.close()
        return bool(self.step >= given.steps)

    def report(self, loss: float, seconds: float, writer: SummaryWriter | None) -> None:
        """Progress of a step, its metrics and a line."""
        progress.report(self.step)
        if not math.isfinite(loss):
            raise Refusal(
                f"the loss of step {self.step} is {loss}: give a lower --rate; the checkpoints before it are unchanged"
            )
        rate = self.batch * self.given.length / seconds
        self.rates.append(rate)
        if writer is None:
            return
        memory = torch.cuda.max_memory_allocated() / 2**30 if self.device.type == "cuda" else None
        mfu = rate * self.flops / (self.peak * self.world) if self.peak else None
        line = {
            "step": self.step, "loss": loss, "tokens_per_second": round(rate, 1), "mfu": mfu and round(mfu, 4),
            "memory_gib": memory and round(memory, 2), "seconds": round(seconds, 4), "time": round(time.time(), 3),
        }  # fmt: skip
        with (self.given.logs / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
        for name in ("loss", "tokens_per_second", "mfu"):
            if line[name] is not None:
                writer.add_scalar(name, line[name], self.step)
        if self.step % 10 == 0 or self.step == self.given.steps:
            say(f"step {self.step} of {self.given.steps}: loss {loss:.4f}, {rate:,.0f} tokens/s")

    def export(self) -> Path:
        """The model in Hugging Face's format, in 16 bits, written to a hidden folder and renamed."""
        target: Path = self.given.output / "model"
        # Of this run: check() refuses any other. One answer for all, because what follows is collective.
        if self.of_all(target.exists())[0]:
            return target
        prepared = self.given.output / ".model"
        weights: dict[str, torch.Tensor] = {}
        for name, parameter in self.engine.module.named_parameters():
            with deepspeed.zero.GatheredParameters([parameter]):  # whole, one at a time; without ZeRO-3 it is already
                if self.rank == 0:
                    weights[name] = parameter.detach().to("cpu", copy=True)
        try:
            if self.rank == 0:
                shutil.rmtree(prepared, ignore_errors=True)
                self.engine.module.save_pretrained(prepared, state_dict=weights)
                AutoTokenizer.from_pretrained(self.folder).save_pretrained(prepared)
                prepared.rename(target)
        except OSError as error:
            shutil.rmtree(prepared, ignore_errors=True)
            raise Refusal(
                f"cannot write the model to {target}: {error}. Free space; the same "
                "--experiment continues with the model"
            ) from error
        dist.barrier(group=self.control)
        return target

    def finish(self) -> None:
        """Export the model, evaluate it as transformers loads it, and write the summary last."""
        after = self.perplexity(self.engine)
        target = self.export()
        exported = None
        if not self.given.no_verify:
            exported = self.perplexity(
                AutoModelForCausalLM.from_pretrained(target, dtype=torch.bfloat16).to(self.device)
            )
            if abs(exported / after - 1) > 0.01:
                raise Refusal(
                    f"the model in {target} has perplexity {exported:.3f}, the trained one {after:.3f}: do not use it"
                )
        summary = {
            "model": str(self.given.weights or self.given.model), "parameters": self.parameters, **self.settings,
            "steps": self.step, "training_tokens": self.step * self.batch * self.given.length,
            "perplexity": {"before": self.before, "after": after, "exported": exported},
            "tokens_per_second": round(statistics.median(self.rates), 1) if self.rates else None,
            "exported_to": str(target), "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "deepspeed": deepspeed.__version__, "torch": torch.__version__,
        }  # fmt: skip
        if self.rank == 0:
            temporary = self.given.output / ".summary.json"
            temporary.write_text(json.dumps(summary, indent=1) + "\n")
            temporary.rename(self.given.output / "summary.json")
        say(f"perplexity {self.before:.3f} before, {after:.3f} after; model in {target}; summary {json.dumps(summary)}")

    def run(self) -> None:
        """From the newest checkpoint to the exported model."""
        self.build()
        final = self.resume()
        if self.step == 0:
            self.before = self.perplexity(self.engine)
            say(f"perplexity of the test split before the training: {self.before:.3f}")
            if self.before > self.settings["vocab_size"] and not self.given.from_scratch:
                raise Refusal(
                    f"the weights predict the text worse than guessing (perplexity {self.before:.0f}, a vocabulary of "
                    f"{self.settings['vocab_size']}): the tokenizer in {self.folder} belongs to other weights"
                )
        if final or self.train():
            self.finish()
        else:
            say(f"stopped on request after step {self.step} of {self.given.steps}; the same experiment resumes there")


def main() -> int:
    """Train, or resume."""
    given = fine_tuning.parser().parse_args()
    signal.signal(signal.SIGUSR1, request_stop)
    try:
        if int(os.environ["RANK"]) == 0:
            fine_tuning.check(given)
        if (given.output / "summary.json").is_file():
            say(f"the run is complete: {given.output / 'summary.json'}")
            return 0
        deepspeed.init_distributed()
        torch.use_deterministic_algorithms(mode=not given.nondeterministic)
        torch.utils.deterministic.fill_uninitialized_memory = False
        Run(given).run()
    except (Refusal, ShardError) as refusal:
        print(f"deepspeed: {refusal}", file=sys.stderr, flush=True)
        return 2
    if not torch.cuda.is_available():
        # gloo's process group can deadlock in its destructor (PyTorch 2.13).
        dist.barrier()
        sys.stdout.flush()
        os._exit(0)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())

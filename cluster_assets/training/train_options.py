"""The trainer's options, and what of them is refused before anything starts."""

from __future__ import annotations

import argparse
import json
import math
import os
from pathlib import Path

from llama import CONFIGURATIONS, LlamaConfig, from_hugging_face

# Dense bf16 FLOP/s of a GPU, by a part of its name; NVIDIA's data sheets, without sparsity.
PEAKS = {"H100 PCIe": 756e12, "H100 NVL": 835e12, "H100": 989e12, "H200": 989e12, "B200": 2250e12, "A100": 312e12}


def parser(description: str) -> argparse.ArgumentParser:
    """The command line. Folders default to those that the jobs export."""
    top = argparse.ArgumentParser(
        prog="train.py", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = top.add_argument
    add("--config", default="debug", help=f"{', '.join(CONFIGURATIONS)}, or a Hugging Face config.json of a Llama")
    add("--weights", type=Path, help="folder of Hugging Face safetensors to start from (default: random)")
    add("--data", type=Path, nargs="+", default=[], help="folder of token shards, or .txt and .jsonl files")
    add("--tokenizer", type=Path, help="tokenizer.json or SentencePiece .model: for text; for shards, to compare")
    add("--eval-data", type=Path, help="token shards for the evaluation (default: the last samples of --data)")
    add("--eval-every", type=int, default=0, help="steps between two evaluations (default: none)")
    add("--eval-samples", type=int, help="samples of an evaluation (default: 4 x --batch)")
    add("--steps", type=int, default=200, help="total steps, including those before a restart")
    add("--batch", type=int, default=16, help="samples per step, over all processes")
    add("--micro-batch", type=int, help="samples per process at a time (default: all; fewer accumulate gradients)")
    add("--length", type=int, help="tokens per sample (default: 64 for debug, else 4096)")
    add("--seed", type=int, default=1, help="of the weights and the order of the data")
    add("--rate", type=float, default=3e-4, help="highest learning rate")
    add("--schedule", choices=("cosine", "wsd", "constant"), default="cosine", help="wsd: warm-up, stable, decay")
    add("--warm-up", type=int, default=0, help="steps of linear warm-up")
    add("--decay", type=float, default=0.1, help="wsd: share of the steps in which the rate falls")
    add("--lowest", type=float, default=0.1, help="last learning rate, as a share of --rate")
    add("--weight-decay", type=float, default=0.1, help="of matrices")
    add("--clip", type=float, default=1.0, help="largest norm of the gradients; 0: no limit")
    add("--precision", choices=("bf16", "fp32"), help="of matrix products (default: bf16 on GPUs, fp32 on CPUs)")
    add("--float8", action="store_true", help="matrix products of the layers in float8 (Hopper or later, torchao)")
    add("--recompute", type=int, default=0, help="recompute activations of every Nth layer; 1: all (default: none)")
    add("--compile", action=argparse.BooleanOptionalAction, help="torch.compile each layer (default: on GPUs)")
    add("--replicas", type=int, default=1, help="groups of processes with a whole model each; sharded inside a group")
    add("--checkpoints", type=Path, default=os.environ.get("CHECKPOINT_DIR"), help="folder (default: $CHECKPOINT_DIR)")
    add("--every", type=int, default=50, help="steps between two checkpoints")
    add("--keep", type=int, default=3, help="complete checkpoints to keep")
    add("--metrics", type=Path, help="file for one line of JSON per step (default: $LOG_DIR/metrics.jsonl)")
    add("--report", type=int, default=10, help="steps between two reports; only a report waits for the GPU")
    add("--peak", type=float, help="TFLOP/s of one GPU for the MFU (default: by its name)")
    add("--deterministic", action="store_true", help="deterministic algorithms, slower on GPUs")
    add("--step-seconds", type=float, default=0.0, help="minimum time of a step, to test failures")
    add("--timeout", type=int, default=600, help="seconds that a process waits for the others")
    return top


def _check_ranges(options: argparse.Namespace) -> None:
    counts = "steps batch length micro_batch eval_samples every keep report replicas timeout"
    for name in counts.split():
        if getattr(options, name) is not None and getattr(options, name) < 1:
            raise SystemExit(f"train.py: --{name.replace('_', '-')} {getattr(options, name)}: give 1 or more")
    for name in ("warm_up", "eval_every", "recompute", "clip", "weight_decay"):
        if not getattr(options, name) >= 0:
            raise SystemExit(f"train.py: --{name.replace('_', '-')} {getattr(options, name)}: give 0 or more")
    for name in ("decay", "lowest"):
        if not 0 <= getattr(options, name) <= 1:
            raise SystemExit(f"train.py: --{name} {getattr(options, name)}: give a share from 0 to 1")
    if not options.rate > 0:
        raise SystemExit(f"train.py: --rate {options.rate}: give more than 0")


def check(options: argparse.Namespace, world: int) -> LlamaConfig:
    """Complete the options and return the model's sizes. Raises SystemExit for what cannot work."""

    def fail(text: str) -> SystemExit:
        return SystemExit(f"train.py: {text}")

    _check_ranges(options)
    options.length = options.length or (64 if options.config == "debug" else 4096)
    if options.batch % world:
        raise fail(f"--batch {options.batch} cannot be divided by {world} processes: give a multiple")
    options.micro_batch = options.micro_batch or options.batch // world
    if options.batch % (world * options.micro_batch):
        raise fail(
            f"--batch {options.batch} cannot be divided by {world} processes x --micro-batch {options.micro_batch}: "
            f"give a multiple of {world * options.micro_batch}"
        )
    options.eval_samples = options.eval_samples or 4 * options.batch
    if options.eval_samples % options.batch:
        raise fail(f"--eval-samples {options.eval_samples} is not a multiple of --batch {options.batch}: give one")
    if world % options.replicas:
        raise fail(f"{world} processes cannot be divided by --replicas {options.replicas}: give a divisor")
    if options.checkpoints is None:
        raise fail("no folder for checkpoints: give --checkpoints, or set CHECKPOINT_DIR")
    if options.metrics is None and os.environ.get("LOG_DIR"):
        options.metrics = Path(os.environ["LOG_DIR"]) / "metrics.jsonl"
    return configuration(options.config)


def configuration(name: str) -> LlamaConfig:
    """The sizes that `--config` names."""
    if name in CONFIGURATIONS:
        return CONFIGURATIONS[name]
    path = Path(name) / "config.json" if Path(name).is_dir() else Path(name)
    try:
        return from_hugging_face(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise SystemExit(
            f"train.py: --config {name}: {error}. Give {', '.join(CONFIGURATIONS)}, or a Llama's config.json"
        ) from error


def learning_rate(options: argparse.Namespace, step: int) -> float:
    """The learning rate of a step, counted from 0: linear warm-up, then the schedule down to `lowest` x `rate`."""
    if step < options.warm_up:
        return float(options.rate * (step + 1) / options.warm_up)
    rest = max(1, options.steps - options.warm_up)
    done = min(1.0, (step - options.warm_up) / rest)
    if options.schedule == "constant":
        share = 1.0
    elif options.schedule == "cosine":
        share = options.lowest + (1 - options.lowest) * (1 + math.cos(math.pi * done)) / 2
    else:
        falling = max(0.0, done - (1 - options.decay)) / options.decay if options.decay else 0.0
        share = 1 - (1 - options.lowest) * falling
    return float(options.rate * share)

"""Tokens/s of our trainer and of torchtitan on the same GPU, in one process, in alternating blocks of steps.

    python3 compare.py RESULT.json [--config 1b] [--batch 8] [--length 4096] [--blocks 4] [--steps 10]

Both train a Llama of the same sizes with a separate output matrix (torchtitan 0.2.2 has no tied one) on the same
tokens: bf16, torch.compile for layers and loss, no recomputation, fused AdamW, gradients clipped. torchtitan runs its
own Trainer with its own settings for one GPU; only its model's sizes and its data loader are replaced. Each block ends
with a synchronisation and a read loss.

Needs a GPU, PyTorch and torchtitan (with torchdata, datasets, tyro and torchao).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, os.environ.get("TRAINING") or str(Path(__file__).resolve().parents[3] / "cluster_assets/training"))
import train
from llama import CONFIGURATIONS, LlamaConfig
from samples import Generated
from torch.nn.attention import sdpa_kernel
from train_options import check, parser

Advance = Callable[[int], object]


def torchtitan(config: LlamaConfig, given: argparse.Namespace, batches: list[torch.Tensor]) -> tuple[Advance, int]:
    """A function that trains some steps with torchtitan, and its number of parameters."""
    from torchtitan.config import JobConfig
    from torchtitan.models.llama3 import get_train_spec
    from torchtitan.models.llama3.model.args import RoPEScalingArgs, TransformerModelArgs
    from torchtitan.protocols.train_spec import register_train_spec
    from torchtitan.train import Trainer

    class Loader:
        def __iter__(self) -> Iterator[tuple[dict[str, torch.Tensor], torch.Tensor]]:
            while True:
                for batch in batches:
                    yield {"input": batch[:, :-1]}, batch[:, 1:]

        def state_dict(self) -> dict[str, Any]:
            return {}

        def load_state_dict(self, _: dict[str, Any]) -> None:
            return None

    multiple = 1024 if config.hidden % 1024 == 0 else 128
    sizes = TransformerModelArgs(
        dim=config.width,
        n_layers=config.layers,
        n_heads=config.heads,
        n_kv_heads=config.kv_heads,
        vocab_size=config.vocabulary,
        multiple_of=multiple,
        ffn_dim_multiplier=config.hidden / (int(8 * config.width / 3)),
        norm_eps=config.eps,
        rope_theta=config.theta,
        rope_scaling_args=RoPEScalingArgs(config.rope_factor, config.rope_low, config.rope_high, config.rope_original),
    )
    spec = replace(
        get_train_spec(),
        model_args={"given": sizes},
        build_tokenizer_fn=None,
        build_dataloader_fn=lambda **_: Loader(),
        state_dict_adapter=None,
    )
    register_train_spec("comparison", spec)
    settings = JobConfig()
    settings.model.name, settings.model.flavor = "comparison", "given"
    settings.training.local_batch_size, settings.training.seq_len = given.batch, given.length
    settings.training.steps = 10_000
    settings.compile.enable = given.compile
    settings.activation_checkpoint.mode = "none"
    settings.lr_scheduler.warmup_steps = 0
    settings.metrics.log_freq = 10
    trainer = Trainer(settings)
    [model] = trainer.model_parts
    linear = model.layers["0"].feed_forward.w1
    if tuple(linear.weight.shape) != (config.hidden, config.width):
        raise SystemExit(f"torchtitan's model has a hidden width of {linear.weight.shape[0]}, ours {config.hidden}")
    iterator = trainer.batch_generator(trainer.dataloader)

    def advance(steps: int) -> float:
        for _ in range(steps):
            trainer.step += 1
            trainer.gc_handler.run(trainer.step)
            trainer.train_step(iterator)
        return float(next(model.parameters()).detach().flatten()[0])  # waits for the GPU

    return advance, sum(weight.numel() for weight in model.parameters())


def measure(programs: dict[str, Advance], blocks: int, steps: int) -> dict[str, list[float]]:
    """Seconds a step of each block, without the first, which compiles."""
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for block in range(-1, blocks):
        for name, advance in programs.items():
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            started = time.perf_counter()
            advance(steps)
            spent = (time.perf_counter() - started) / steps
            print(f"block {block} {name}: {spent:.4f} s a step", flush=True)
            if block >= 0:
                seconds[name].append(round(spent, 5))
    return seconds


def main(arguments: list[str]) -> int:
    """Measure, print a line per block, and write the result."""
    top = argparse.ArgumentParser(description="Compare our trainer with torchtitan.")
    top.add_argument("result", type=Path)
    top.add_argument("--config", default="1b", choices=tuple(CONFIGURATIONS))
    top.add_argument("--batch", type=int, default=8)
    top.add_argument("--length", type=int, default=4096)
    top.add_argument("--blocks", type=int, default=4)
    top.add_argument("--steps", type=int, default=10)
    top.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    given = top.parse_args(arguments)
    # nccl-lint: allow RANK -- one process without torchrun
    for name, value in {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("MASTER_PORT", "29511")
    config = replace(CONFIGURATIONS[given.config], tied=False)
    words = f"--batch {given.batch} --length {given.length} --steps 100000 --every 100000 --checkpoints /nonexistent"
    options = parser("").parse_args(words.split())
    check(options, 1)
    on_gpu = torch.cuda.is_available()
    options.precision, options.compile = "bf16" if on_gpu else "fp32", given.compile
    samples = Generated(config.vocabulary, given.length, options.seed)
    batches = [
        torch.stack([torch.from_numpy(samples.sample(8 * at + row)) for row in range(given.batch)]) for at in range(8)
    ]
    theirs, parameters = torchtitan(config, given, batches)
    run = train.Run(options, config)

    def ours(steps: int) -> float:
        with sdpa_kernel(train.ATTENTION, set_priority=True):
            run.advance(run.step + steps)
        return float(next(run.model.parameters()).detach().to_local().flatten()[0])

    seconds = measure({"torchtitan": theirs, "ours": ours}, given.blocks, given.steps)
    tokens = given.batch * given.length
    flops, convention = run.flops, run.flops + 6 * config.layers * config.width * given.length
    result: dict[str, Any] = {
        "date": time.strftime("%F", time.gmtime()),
        "gpu": torch.cuda.get_device_name() if on_gpu else "none",
        "versions": {"torch": torch.__version__, "torchtitan": version("torchtitan")},
        "config": given.config,
        "parameters": {"torchtitan": parameters, "ours": run.parameters},
        "batch": given.batch,
        "length": given.length,
        "seconds_a_step": seconds,
        "last_loss_of_ours": run.last_loss,
    }
    for name, values in seconds.items():
        rate = tokens / statistics.median(values)
        result[name] = {"tokens_per_second": round(rate)}
        if run.peak:
            result[name] |= {"mfu": round(rate * flops / run.peak, 4)}
            result[name] |= {"mfu_attention_not_causal": round(rate * convention / run.peak, 4)}
    result["ratio"] = round(result["ours"]["tokens_per_second"] / result["torchtitan"]["tokens_per_second"], 4)
    given.result.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

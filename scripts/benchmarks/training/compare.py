"""Tokens/s of our trainer and of torchtitan on the same GPUs, in the same processes, in alternating blocks of steps.

    python3 compare.py RESULT.json [--config 1b] [--batch 8] [--length 4096] [--blocks 4] [--steps 10]
    torchrun --nproc-per-node 2 compare.py RESULT.json [--float8] [--recompute] [--only ours]

Both train a Llama of the same sizes with a separate output matrix (torchtitan 0.2.2 has no tied one): bf16 or float8,
torch.compile for layers and loss, fused AdamW, gradients clipped, `--batch` samples a GPU. On several GPUs both shard
with FSDP2 over all of them. torchtitan runs its own Trainer with its own settings; only its model's sizes and its data
loader are replaced. A block is timed between two barriers. `--only` measures one program, where both do not fit.

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
import torch.distributed as dist

sys.path.insert(0, os.environ.get("TRAINING") or str(Path(__file__).resolve().parents[3] / "cluster_assets/training"))
import train
from llama import CONFIGURATIONS, LlamaConfig
from samples import Generated
from torch.nn.attention import sdpa_kernel
from train_options import PEAKS, check, parser

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
    settings.activation_checkpoint.mode = "full" if given.recompute else "none"
    if given.float8:
        settings.model.converters = ["quantize.linear.float8"]
        settings.quantize.linear.float8.filter_fqns = ["output"]
        settings.quantize.linear.float8.enable_fsdp_float8_all_gather = True
        settings.quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp = True
    settings.lr_scheduler.warmup_steps = 0
    settings.metrics.log_freq = 10
    trainer = Trainer(settings)
    [model] = trainer.model_parts
    linear = model.layers["0"].feed_forward.w1
    if tuple(linear.weight.shape) != (config.hidden, config.width):
        raise SystemExit(f"torchtitan's model has a hidden width of {linear.weight.shape[0]}, ours {config.hidden}")
    iterator = trainer.batch_generator(trainer.dataloader)

    def advance(steps: int) -> None:
        for _ in range(steps):
            trainer.step += 1
            trainer.gc_handler.run(trainer.step)
            trainer.train_step(iterator)

    return advance, sum(weight.numel() for weight in model.parameters())


def _wait() -> None:
    """Until all GPUs have finished."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    dist.barrier()


def measure(programs: dict[str, Advance], blocks: int, steps: int) -> dict[str, list[float]]:
    """Seconds a step of each block, without the first, which compiles."""
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for block in range(-1, blocks):
        for name, advance in programs.items():
            _wait()
            started = time.perf_counter()
            advance(steps)
            _wait()
            spent = (time.perf_counter() - started) / steps
            if dist.get_rank() == 0:
                print(f"block {block} {name}: {spent:.4f} s a step", flush=True)
            if block >= 0:
                seconds[name].append(round(spent, 5))
    return seconds


def report(
    given: argparse.Namespace, config: LlamaConfig, parameters: dict[str, int], seconds: dict[str, list[float]]
) -> dict[str, Any]:
    """The result of a run as it is written."""
    world = dist.get_world_size()
    tokens = given.batch * given.length * world
    flops = config.flops_per_token(next(iter(parameters.values())), given.length)
    convention = flops + 6 * config.layers * config.width * given.length
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    peak = next((peak for part, peak in PEAKS.items() if part in name), None)
    result: dict[str, Any] = {
        "date": time.strftime("%F", time.gmtime()),
        "gpu": name,
        "gpus": world,
        "float8": given.float8,
        "recompute": given.recompute,
        "versions": {"torch": torch.__version__, "torchtitan": version("torchtitan")},
        "config": given.config,
        "parameters": parameters,
        "batch": given.batch,
        "length": given.length,
        "seconds_a_step": seconds,
        "memory_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2)
        if torch.cuda.is_available() and given.only
        else None,
    }
    for program, values in seconds.items():
        rate = tokens / statistics.median(values)
        result[program] = {"tokens_per_second": round(rate)}
        if peak:
            result[program] |= {"mfu": round(rate * flops / peak / world, 4)}
            result[program] |= {"mfu_attention_not_causal": round(rate * convention / peak / world, 4)}
    if not given.only:
        result["ratio"] = round(result["ours"]["tokens_per_second"] / result["torchtitan"]["tokens_per_second"], 4)
    return result


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
    top.add_argument("--float8", action="store_true")
    top.add_argument("--recompute", action="store_true", help="recompute all activations")
    top.add_argument("--only", choices=("torchtitan", "ours"))
    given = top.parse_args(arguments)
    # nccl-lint: allow RANK -- one process without torchrun
    for name, value in {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("MASTER_PORT", "29511")
    config = replace(CONFIGURATIONS[given.config], tied=False)
    world = int(os.environ["WORLD_SIZE"])
    words = f"--batch {given.batch * world} --micro-batch {given.batch} --length {given.length} --steps 100000"
    words += f" --every 100000 --checkpoints /nonexistent --recompute {int(given.recompute)}"
    options = parser("").parse_args(words.split())
    check(options, world)
    on_gpu = torch.cuda.is_available()
    options.precision, options.compile = "bf16" if on_gpu else "fp32", given.compile
    options.float8 = given.float8
    samples = Generated(config.vocabulary, given.length, options.seed)
    batches = [
        torch.stack([torch.from_numpy(samples.sample(8 * at + row)) for row in range(given.batch)]) for at in range(8)
    ]
    programs: dict[str, Advance] = {}
    parameters: dict[str, int] = {}
    if given.only != "ours":
        programs["torchtitan"], parameters["torchtitan"] = torchtitan(config, given, batches)
    else:
        if on_gpu:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo")
    if given.only != "torchtitan":
        run = train.Run(options, config)

        def ours(steps: int) -> None:
            with sdpa_kernel(train.ATTENTION, set_priority=True):
                run.advance(run.step + steps)

        programs["ours"], parameters["ours"] = ours, run.parameters
    seconds = measure(programs, given.blocks, given.steps)
    if dist.get_rank() == 0:
        result = report(given, config, parameters, seconds)
        given.result.write_text(json.dumps(result, indent=1) + "\n")
        print(json.dumps(result))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

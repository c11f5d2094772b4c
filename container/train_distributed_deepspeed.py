"""Fine-tunes a causal language model with DeepSpeed, by default Qwen 2.5 0.5B on WikiText-2.

Start it with torchrun. The folders are those of the job's environment (docs/jobs.md): DATA_DIR, CHECKPOINT_DIR,
TENSORBOARD_DIR, OUTPUT_DIR; without them data, checkpoints/EXPERIMENT_NAME, logs/EXPERIMENT_NAME and
results/EXPERIMENT_NAME in LUSTRE_BASE.

The same experiment resumes from its newest checkpoint. After SIGUSR1 to any process a checkpoint is written at the end
of the step, and the program exits with status 0 without a final model.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import deepspeed
import torch
import torch.distributed as dist
from torch.utils.tensorboard import SummaryWriter
from transformers import AutoModelForCausalLM, AutoTokenizer

_stop = False


def request_stop(_signal: int, _frame: FrameType | None) -> None:
    """Request a checkpoint and the end; the loop checks after each step."""
    global _stop
    _stop = True


def folder(variable: str, *below: str) -> Path | None:
    """A folder of the job: the variable's, or one in LUSTRE_BASE."""
    if value := os.environ.get(variable):
        return Path(value)
    base = os.environ.get("LUSTRE_BASE")
    return Path(base, *below) if base and all(below) else None


def arguments() -> argparse.Namespace:
    experiment = os.environ.get("EXPERIMENT_NAME", "")
    data = folder("DATA_DIR", "data")
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = top.add_argument
    add("--deepspeed_config", "--deepspeed-config", type=Path, default=Path(__file__).with_name("ds_config.json"))
    add("--model", default="Qwen/Qwen2.5-0.5B", help="name on the Hugging Face Hub, or a folder (default: %(default)s)")
    add("--data", type=Path, default=data and data / "wikitext-2", help="folder with *train*.parquet, .txt or .tokens")
    add("--checkpoints", type=Path, default=folder("CHECKPOINT_DIR", "checkpoints", experiment))
    add("--tensorboard", type=Path, default=folder("TENSORBOARD_DIR", "logs", experiment))
    add("--output", type=Path, default=folder("OUTPUT_DIR", "results", experiment), help="folder for the final model")
    add("--steps", type=int, default=500, help="optimizer steps in all (default: 500)")
    add("--length", type=int, default=1024, help="tokens a sample (default: 1024)")
    add("--save-every", type=int, default=100, help="steps between two checkpoints (default: 100)")
    add("--seed", type=int, default=1)
    add("--local_rank", type=int, default=0, help=argparse.SUPPRESS)  # DeepSpeed's own launcher passes it
    given = top.parse_args()
    for name in ("data", "checkpoints", "tensorboard", "output"):
        if getattr(given, name) is None:
            top.error(f"no --{name}: give it, or LUSTRE_BASE and EXPERIMENT_NAME in the environment, as our jobs do")
    if given.steps < 1 or given.length < 2 or given.save_every < 1:
        top.error("--steps and --save-every must be at least 1, --length at least 2")
    return given


def refuse(why: str) -> NoReturn:
    """End with a reason and status 2, as for wrong arguments."""
    print(why, file=sys.stderr)
    sys.exit(2)


def texts(data: Path) -> str:
    """The training split's text, whole."""
    files = sorted(path for path in data.rglob("*train*") if path.suffix in {".parquet", ".txt", ".tokens"})
    if not files:
        refuse(f"{data} has no *train*.parquet, *train*.txt or *train*.tokens: copy the data set there")
    parts = []
    for file in files:
        if file.suffix == ".parquet":
            import pyarrow.parquet

            parts += pyarrow.parquet.read_table(file, columns=["text"]).column("text").to_pylist()
        else:
            parts.append(file.read_text(encoding="utf-8"))
    return "\n".join(parts)


def samples(text: str, tokenizer: Any, length: int) -> torch.Tensor:
    """The text as rows of `length` tokens, without an incomplete last row."""
    tokens = torch.tensor(tokenizer(text, return_attention_mask=False, verbose=False)["input_ids"])
    rows = len(tokens) // length
    if rows == 0:
        refuse(f"the training text has {len(tokens)} tokens, fewer than --length {length}")
    return tokens[: rows * length].view(rows, length)


def batches(rows: torch.Tensor, size: int, seed: int, first: int) -> Iterator[torch.Tensor]:
    """This rank's micro-batches from number `first`, the same after a restart: the epoch's number seeds its order."""
    rank, world, current = dist.get_rank(), dist.get_world_size(), -1
    for number in itertools.count(first):
        start = (number * world + rank) * size
        picked = []
        for epoch, position in (divmod(index, len(rows)) for index in range(start, start + size)):
            if epoch != current:
                order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed + epoch))
                current = epoch
            picked.append(rows[order[position]])
        yield torch.stack(picked)


def stop_wanted(device: torch.device) -> bool:
    """Whether any process got a stop request: all must leave the loop at the same step."""
    flag = torch.tensor([int(_stop)], device=device)
    dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    return bool(flag.item())


def save_model(engine: Any, tokenizer: Any, output: Path) -> None:
    """Write the final model to a hidden folder, then rename it."""
    if dist.get_rank() == 0:
        prepared = output / ".model"
        shutil.rmtree(prepared, ignore_errors=True)
        engine.module.save_pretrained(prepared)
        tokenizer.save_pretrained(prepared)
        shutil.rmtree(output / "model", ignore_errors=True)
        prepared.rename(output / "model")
    dist.barrier()


def main() -> None:
    """Train to the last step, or until a stop is requested."""
    given = arguments()
    signal.signal(signal.SIGUSR1, request_stop)
    deepspeed.init_distributed()
    torch.manual_seed(given.seed)
    tokenizer = AutoTokenizer.from_pretrained(given.model)
    rows = samples(texts(given.data), tokenizer, given.length)
    # The schedule needs the number of steps.
    config: dict[str, Any] = json.loads(given.deepspeed_config.read_text(encoding="utf-8"))
    config.get("scheduler", {}).get("params", {}).setdefault("total_num_steps", given.steps)
    model = AutoModelForCausalLM.from_pretrained(given.model, dtype=torch.float32)
    model.config.use_cache = False
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
    if dist.get_rank() == 0:
        for path in (given.checkpoints, given.tensorboard, given.output):
            path.mkdir(parents=True, exist_ok=True)
    dist.barrier()
    if (given.checkpoints / "latest").is_file():
        engine.load_checkpoint(str(given.checkpoints))
    step, accumulation = engine.global_steps, engine.gradient_accumulation_steps()
    writer = SummaryWriter(str(given.tensorboard)) if dist.get_rank() == 0 else None
    source = batches(rows, engine.train_micro_batch_size_per_gpu(), given.seed, step * accumulation)
    saved, stopping = step, False
    while step < given.steps and not stopping:
        for _ in range(accumulation):
            batch = next(source).to(engine.device)
            loss = engine(input_ids=batch, labels=batch).loss
            engine.backward(loss)
            engine.step()
        step = engine.global_steps
        if writer is not None:
            writer.add_scalar("loss", loss.item(), step)
            if step % 10 == 0 or step == given.steps:
                print(f"step {step} of {given.steps}: loss {loss.item():.4f}", flush=True)
        stopping = stop_wanted(engine.device)
        if step > saved and (stopping or step % given.save_every == 0 or step >= given.steps):
            engine.save_checkpoint(str(given.checkpoints))
            saved = step
    if writer is not None:
        writer.close()
    if step >= given.steps:
        save_model(engine, tokenizer, given.output)
    elif dist.get_rank() == 0:
        print(f"stopped on request after step {step} of {given.steps}; the same experiment resumes there", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

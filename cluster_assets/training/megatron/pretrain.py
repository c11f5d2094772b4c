"""pretrain.py PRETRAIN_GPT [ARGUMENT...]: runs Megatron-LM's pretrain_gpt.py under the rules of our jobs.

- Each step is reported to the job's watchdog (progress.py), and again during checkpoints and evaluations, for at most
  half an hour each: then the watchdog's limit applies to them too.
- Every --log-interval steps the last rank, which has the loss, appends a line to $LOG_DIR/metrics.jsonl. `mfu` is null:
  --log-throughput prints TFLOP/s.
- SIGUSR1 is ignored before Megatron-LM handles it and after. --exit-signal-handler writes a checkpoint and restores
  the previous handler, while node-launch.sh repeats the signal; the default action would then kill the process.

For Megatron-LM core_v0.16.1, whose training loop calls training_log(..., iteration as the fourth argument, ...).
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import runpy
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import progress

PAUSE_S = 1800.0
"""How long a checkpoint or an evaluation may take before its reports end."""


def reporting(function: Callable[..., object], step: Callable[[], int]) -> Callable[..., object]:
    """A function during which the step is reported again and again."""

    @functools.wraps(function)
    def reported(*words: object, **named: object) -> object:
        ended, limit = threading.Event(), time.monotonic() + PAUSE_S

        def report() -> None:
            while not ended.wait(progress.INTERVAL_S) and time.monotonic() < limit:
                progress.report(step())

        thread = threading.Thread(target=report, daemon=True)
        thread.start()
        try:
            return function(*words, **named)
        finally:
            ended.set()
            thread.join()

    return reported


def watch(training: ModuleType) -> None:
    """Report every step that the training loop logs, and the pauses between them."""
    original, folder = training.training_log, os.environ.get("LOG_DIR")
    last = int(os.environ.get("RANK", "0")) == int(os.environ.get("WORLD_SIZE", "1")) - 1
    begun, at, done = 0, time.monotonic(), 0

    @functools.wraps(original)
    def training_log(
        losses: dict[str, Any], total: object, rate: object, step: int, *more: object, **named: object
    ) -> object:
        nonlocal begun, at, done
        args, now = training.get_args(), time.monotonic()
        # Before the original, which empties the losses.
        loss = losses.get("lm loss")
        if folder and last and loss is not None and step % args.log_interval == 0:
            seconds = (now - at) / (step - begun) if begun else None
            tokens = args.global_batch_size * args.seq_length
            line = {
                "step": step,
                "loss": float(loss.reshape(-1)[0]),
                "tokens_per_second": tokens / seconds if seconds else None,
                "mfu": None,
                "memory_gib": training.torch.cuda.max_memory_allocated() / 2**30,
                "seconds": seconds,
                "time": time.time(),
            }
            with (Path(folder) / "metrics.jsonl").open("a") as file:
                file.write(json.dumps(line) + "\n")
            begun, at = step, now
        done = step
        progress.report(step)
        return original(losses, total, rate, step, *more, **named)

    vars(training)["training_log"] = training_log
    for name in ("save_checkpoint", "evaluate_and_print_results"):
        vars(training)[name] = reporting(vars(training)[name], lambda: done)


def main() -> None:
    """The command line; see the module's docstring."""
    if len(sys.argv) < 2:
        sys.exit("pretrain.py: give the path of Megatron-LM's pretrain_gpt.py and its arguments")
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    program = Path(sys.argv[1])
    sys.argv = sys.argv[1:]
    sys.path.insert(0, str(program.parent))
    watch(importlib.import_module("megatron.training.training"))
    runpy.run_path(str(program), run_name="__main__")


if __name__ == "__main__":
    main()

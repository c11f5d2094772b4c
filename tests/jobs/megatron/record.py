"""Records facts of Megatron-LM: options and names of its parser, and its own estimates of memory for our recipes.

    python -m tests.jobs.megatron.record SOURCE     (SOURCE: Megatron-LM at tag core_v0.16.1; needs torch and triton)

Writes facts.json next to this file. Tests compare the recipes and our arithmetic with it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.jobs.conftest import JOBS, load_module

VERSION = "core_v0.16.1, 55ac7082517c3878ae653c07c09c534b8aed49f6"
FACTS = Path(__file__).with_name("facts.json")


def options(arguments: ModuleType) -> dict[str, Any]:
    """Every option: whether it is a flag, and its choices."""
    parser = arguments.add_megatron_arguments(argparse.ArgumentParser(allow_abbrev=False))
    return {
        name: {"flag": action.nargs == 0, "choices": [str(one) for one in action.choices] if action.choices else None}
        for action in parser._actions
        for name in action.option_strings
        if name.startswith("--")
    }


def memory(name: str, recipe_module: ModuleType, arguments: ModuleType, theory: ModuleType) -> dict[str, float]:
    """Bytes by theoretical_memory_usage.py, after validate_args."""
    recipe = recipe_module.load(name)
    os.environ |= {"WORLD_SIZE": str(recipe["nodes"] * 8), "CUDA_DEVICE_MAX_CONNECTIONS": "1"}
    words = recipe_module.command_line(recipe["arguments"])
    sys.argv = ["pretrain_gpt.py", *words, "--mock-data", "--tokenizer-type", "NullTokenizer", "--vocab-size", "1000"]
    args = arguments.validate_args(arguments.parse_args())
    args.padded_vocab_size = recipe_module.Recipe(recipe["arguments"], recipe["vocabulary"]).vocabulary
    microbatches = args.global_batch_size // (args.micro_batch_size * args.data_parallel_size)
    exact = args.sequence_parallel and args.recompute_granularity == "selective"
    activations = theory.compute_activation_memory if exact else theory.compute_activation_memory_without_sp
    return {
        "data_parallel": args.data_parallel_size,
        "microbatches": microbatches,
        "state": theory.compute_weight_and_optimizer_memory(args),
        "activations": activations(args, microbatches),
    }


def main() -> None:
    sys.path.insert(0, sys.argv[1])
    arguments = importlib.import_module("megatron.training.arguments")
    theory = importlib.import_module("megatron.training.theoretical_memory_usage")
    # There is no GPU to ask; 9 is Hopper.
    vars(arguments)["get_device_arch_version"] = lambda: 9
    recipe_module = load_module(JOBS / "lib" / "megatron_recipe.py")
    with contextlib.redirect_stdout(io.StringIO()):
        found = {
            one.stem: memory(one.stem, recipe_module, arguments, theory) for one in recipe_module.RECIPES.glob("*.json")
        }
        attributes = sorted(vars(arguments.parse_args()))
        lines = [f'  "{name}": {json.dumps(one)}' for name, one in options(arguments).items()]
    facts = {"version": VERSION, "attributes": " ".join(attributes), "memory": dict(sorted(found.items()))}
    text = json.dumps(facts, indent=1)[:-2] + ',\n "options": {\n' + ",\n".join(lines) + "\n }\n}\n"
    FACTS.write_text(text)


if __name__ == "__main__":
    main()

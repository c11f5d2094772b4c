"""megatron_recipe.py RECIPE [OPTION...] [-- ARGUMENT...]: the arguments of pretrain_gpt.py for a recipe, one a line.

A recipe is a JSON file: `description`, `source`, `nodes`, `vocabulary` (tokens, for the estimate of memory), and
`arguments`, which are Megatron-LM's own without the dashes; true is a flag. ARGUMENTs after -- win over the recipe's.
Sizes that do not divide, or a model that does not fit in the GPUs' memory, are refused, all faults at once.

Rules and formulas: Megatron-LM core_v0.16.1, megatron/training/arguments.py (validate_args), megatron/core/transformer/
transformer_config.py and megatron/training/theoretical_memory_usage.py. The standard library only, Python 3.9 or later.
Exit codes: 0 the arguments are on stdout, a summary on stderr; 1 the recipe does not fit; 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RECIPES = Path(__file__).resolve().parents[2] / "training" / "megatron"
GIB = 1024**3
CHECKPOINT_BYTES = 14
"""Of a parameter in torch_dist: weights in 16 bits; weights and two moments of the optimizer in 32."""
RESERVE_GIB = 6.0
"""For the CUDA context, NCCL's buffers, temporary tensors and fragmentation. An assumption, not a measurement."""
MEMORY_GIB = {"V100": 32, "A100": 40, "H100": 80, "H200": 141, "B200": 179, "B300": 268}
MEMORY_GIB.update({"A10G": 22, "L4": 22, "L40S": 44, "T4": 16})
"""GPU memory by the name in settings.json, from EC2's DescribeInstanceTypes. p4de has A100 of 80: --gpu-memory."""

Arguments = dict[str, Any]
"""Values are true or false, a number, a text, or a list of texts."""


class Refused(Exception):
    """Every reason why a recipe cannot run."""


@dataclass(frozen=True)
class Machine:
    """What the job gets. Without `memory_gib`, whether the model fits is not checked."""

    nodes: int
    gpus: int
    memory_gib: float | None


class Recipe:
    """Arguments by name, with the numbers that Megatron-LM derives from them."""

    def __init__(self, arguments: Arguments, vocabulary: int) -> None:
        self.arguments = arguments
        self.layers, self.hidden = self.number("num-layers"), self.number("hidden-size")
        self.heads, self.length = self.number("num-attention-heads"), self.number("seq-length")
        self.tensor = self.number("tensor-model-parallel-size", 1)
        self.pipeline = self.number("pipeline-model-parallel-size", 1)
        self.context = self.number("context-parallel-size", 1)
        self.micro, self.batch = self.number("micro-batch-size"), self.number("global-batch-size")
        self.gated, self.groups = bool(arguments.get("swiglu")), self.number("num-query-groups", self.heads)
        if not arguments.get("group-query-attention"):
            self.groups = self.heads
        # The same default as Megatron-LM's validate_args.
        default = int(8 * self.hidden / 3 / 64) * 64 if self.gated else 4 * self.hidden
        self.feed_forward = self.number("ffn-hidden-size", default)
        self.channels = self.number("kv-channels", max(1, self.hidden // self.heads))
        self.stage_layers = self.number("num-layers-per-virtual-pipeline-stage", 0)
        multiple = self.number("make-vocab-size-divisible-by", 128) * self.tensor
        self.vocabulary = math.ceil(vocabulary / multiple) * multiple

    def number(self, name: str, default: int | None = None) -> int:
        """A whole number of the recipe."""
        value = self.arguments.get(name, default)
        if value is None:
            raise Refused(f"--{name} is missing: give it in the recipe or after --")
        try:
            number = int(str(value))
        except ValueError:
            number = -1
        if number < (0 if default == 0 else 1):
            raise Refused(f"--{name} '{value}': give a whole number from 1")
        return number

    def faults(self, machine: Machine) -> list[str]:
        """What does not divide."""
        world, model = machine.nodes * machine.gpus, self.tensor * self.pipeline * self.context
        data, stage = world // model or 1, self.layers // self.pipeline
        microbatches = self.batch // (self.micro * data)
        sizes = f"tensor {self.tensor} x pipeline {self.pipeline} x context {self.context} = {model}"
        gpus = f"{machine.nodes} nodes x {machine.gpus} GPUs = {world}"
        tensor, heads = f"tensor {self.tensor}", f"num-attention-heads {self.heads}"
        batch = f"global-batch-size {self.batch} ({gpus}, {sizes})"
        virtual = f"num-layers-per-virtual-pipeline-stage {self.stage_layers}"
        rules = [
            (machine.gpus, self.tensor, tensor, f"the {machine.gpus} GPUs of a node"),
            (world, model, sizes, gpus),
            (self.heads, self.tensor, tensor, heads),
            (self.heads, self.groups, f"num-query-groups {self.groups}", heads),
            (self.feed_forward, self.tensor, tensor, f"ffn-hidden-size {self.feed_forward}"),
            (self.layers, self.pipeline, f"pipeline {self.pipeline}", f"num-layers {self.layers}"),
        ]
        if "kv-channels" not in self.arguments:
            rules.append((self.hidden, self.heads, heads, f"hidden-size {self.hidden}"))
        if self.context > 1:
            rules.append((self.length, 2 * self.context, f"2 x context {self.context}", f"seq-length {self.length}"))
        if self.arguments.get("sequence-parallel"):
            part = f"context {self.context} x {tensor} with sequence-parallel"
            rules.append((self.length, self.context * self.tensor, part, f"seq-length {self.length}"))
        if world % model == 0:
            part = f"micro-batch-size {self.micro} x data parallel {data}"
            rules.append((self.batch, self.micro * data, part, batch))
        if self.stage_layers:
            rules.append((stage, self.stage_layers, virtual, f"{stage} layers a stage"))
            part = f"pipeline {self.pipeline} with virtual stages"
            rules.append((microbatches, self.pipeline, part, f"{microbatches} microbatches"))
        found = [f"{name} does not divide {whole}" for size, part, name, whole in rules if size % part]
        if self.groups % self.tensor and self.tensor % self.groups:
            found.append(f"{tensor} and num-query-groups {self.groups} do not divide each other")
        if self.stage_layers and self.pipeline == 1:
            found.append(f"{virtual} needs pipeline 2 or more")
        positions = self.number("max-position-embeddings")
        if positions < self.length:
            found.append(f"seq-length {self.length} is more than max-position-embeddings {positions}")
        return found

    def parameters(self) -> tuple[float, float]:
        """Parameters of the transformer block, and of one embedding."""
        norm = 1 if self.arguments.get("normalization") == "RMSNorm" else 2
        projection = self.channels * self.heads / self.hidden
        attention = 2 * self.hidden**2 * (1 + self.groups / self.heads) * projection
        layer = 2 * self.hidden * (self.feed_forward * (1.5 if self.gated else 1) + norm) + attention
        return layer * self.layers + norm * self.hidden, float(self.hidden * self.vocabulary)

    def all_parameters(self) -> float:
        """Parameters of the model."""
        block, embedding = self.parameters()
        return block + embedding * (2 if self.arguments.get("untie-embeddings-and-output-weights") else 1)

    def state_bytes(self, data: int) -> float:
        """Weights, gradients and optimizer on the fullest GPU: compute_weight_and_optimizer_memory.

        The optimizer is sharded over the context parallel GPUs too, which the formula's own data parallel size is not.
        """
        block, embedding = self.parameters()
        shard = block / self.pipeline + embedding
        if self.arguments.get("untie-embeddings-and-output-weights") and self.pipeline == 1:
            shard += embedding
        each = 6 + 12 / (data * self.context) if self.arguments.get("use-distributed-optimizer") else 18.0
        return shard / self.tensor * each

    def activation_bytes(self, microbatches: int) -> float:
        """Activations of the first pipeline stage: compute_activation_memory, or without sequence parallelism
        compute_activation_memory_without_sp, as report_theoretical_memory chooses. Ours: context parallelism divides
        the sequence, and full recomputation keeps each layer's input and the activations of one layer.
        """
        tokens = self.length * self.micro / self.context
        sequence = bool(self.arguments.get("sequence-parallel")) and self.tensor > 1
        exact = sequence and self.arguments.get("recompute-granularity") == "selective"
        if exact:
            layer = tokens * self.hidden * (18 + 4 * self.feed_forward / self.hidden)
        else:
            layer = tokens * self.hidden * (10 + 24 / self.tensor)
        total = layer * self.layers
        if self.arguments.get("recompute-granularity") == "full":
            total = 2 * tokens * self.hidden * self.layers + layer
        total += (8 + self.hidden) * tokens * self.pipeline
        if self.stage_layers:
            virtual = self.layers // self.pipeline // self.stage_layers
            total *= 1 + (self.pipeline - 1) / (self.pipeline * virtual)
        elif self.pipeline > 1:
            total *= min(1, microbatches / self.pipeline)
        if exact:
            if self.pipeline == 1:
                total += tokens * self.hidden * 4 * (1 + self.vocabulary / self.hidden)
            return total / self.tensor
        if self.pipeline == 1:
            total += 2 * (tokens * self.vocabulary / self.tensor + tokens * self.hidden)
        return total * 1.05

    def check(self, machine: Machine) -> str:
        """A summary; raises Refused with every fault."""
        faults = self.faults(machine)
        if faults:
            raise Refused("; ".join(faults))
        data = machine.nodes * machine.gpus // (self.tensor * self.pipeline * self.context)
        microbatches = self.batch // (self.micro * data)
        state, activations = self.state_bytes(data) / GIB, self.activation_bytes(microbatches) / GIB
        need = f"{state:.1f} GiB of weights, gradients and optimizer + {activations:.1f} GiB of activations"
        if machine.memory_gib is not None and state + activations + RESERVE_GIB > machine.memory_gib:
            raise Refused(
                f"does not fit: a GPU needs {need} + {RESERVE_GIB:g} GiB of reserve, has {machine.memory_gib:g} GiB. "
                "Give more nodes, a larger --tensor, --pipeline or --context, or -- --recompute-granularity full "
                "--recompute-method uniform --recompute-num-layers 1"
            )
        share = f" of {machine.memory_gib:g} GiB" if machine.memory_gib is not None else "; the GPUs' memory is unknown"
        sizes = f"tensor {self.tensor} x pipeline {self.pipeline} x context {self.context} x data {data}"
        size = f"{self.all_parameters() / 1e9:.2f} billion parameters on {machine.nodes} nodes x {machine.gpus} GPUs"
        return f"{size}: {sizes}, {microbatches} microbatches; a GPU needs about {need}{share}"


def load(name: str) -> dict[str, Any]:
    """A recipe by its name or its path."""
    path = Path(name) if "/" in name else RECIPES / f"{name}.json"
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        known = " ".join(sorted(one.stem for one in RECIPES.glob("*.json")))
        raise Refused(f"no recipe {path}; recipes: {known}. A path with a / names a file of your own") from None
    except (OSError, ValueError) as problem:
        raise Refused(f"cannot read {path}: {problem}") from problem
    kinds = {"description": str, "source": str, "nodes": int, "vocabulary": int, "arguments": dict}
    wrong = [key for key, kind in kinds.items() if not isinstance(found, dict) or not isinstance(found.get(key), kind)]
    if wrong:
        raise Refused(f"{path} has no valid {', '.join(wrong)}: see the recipes in {RECIPES}")
    return dict(found)


def merge(arguments: Arguments, words: Sequence[str]) -> Arguments:
    """A recipe's arguments with those of a command line."""
    merged, name = dict(arguments), ""
    given: dict[str, list[str]] = {}
    for word in words:
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            given[name] = [value] if value else []
        elif name:
            given[name].append(word)
        else:
            raise Refused(f"'{word}' is not an argument of pretrain_gpt.py: they begin with --")
    for key, values in given.items():
        merged[key] = True if not values else values[0] if len(values) == 1 else values
    return merged


def command_line(arguments: Arguments) -> list[str]:
    """Arguments as words; a flag that is false is left out."""
    words = []
    for name, value in arguments.items():
        if value is not False:
            words.append(f"--{name}")
            values = [] if value is True else value if isinstance(value, list) else [value]
            words += [str(one) for one in values]
    return words


def of_queue(settings: Path, queue: str) -> tuple[int | None, float | None]:
    """GPUs of a node and their memory in GiB, by settings.json; the first queue is Slurm's default."""
    try:
        queues = json.loads(settings.read_text())["queues"]
    except OSError:
        return None, None
    for one in queues:
        if queue in ("", one["name"]):
            found = [instance for compute in one["compute"] for instance in compute["instances"]]
            counts = [instance["gpus"] for instance in found]
            memories = [MEMORY_GIB.get(instance["gpu"]) for instance in found]
            known = [memory for memory in memories if memory is not None]
            return min(counts, default=None), min(known) if known and len(known) == len(memories) else None
    return None, None


def main(words: list[str]) -> int:
    """The command line; see the module's docstring."""
    end = words.index("--") if "--" in words else len(words)
    own, rest = words[:end], words[end + 1 :]
    parser = argparse.ArgumentParser(prog="megatron_recipe.py", description="Arguments of pretrain_gpt.py.")
    parser.add_argument("recipe", help="name of a recipe, or the path of a file")
    parser.add_argument("--nodes", type=int, help="default: the recipe's")
    parser.add_argument("--gpus", type=int, help="of a node; default: the queue's")
    parser.add_argument("--gpu-memory", type=float, help="GiB; default: the queue's")
    parser.add_argument("--settings", type=Path, default=Path("/opt/trainyard/settings.json"))
    parser.add_argument("--queue", default="", help="default: the first")
    parser.add_argument("--data", type=Path, help="folder that megatron-prepare wrote")
    parser.add_argument("--start-from", type=Path, help="folder that megatron-convert.sbatch wrote")
    parser.add_argument("--checkpoints", type=Path, help="folder of the experiment, for the space that is free")
    parser.add_argument("--show-nodes", action="store_true", help="print the recipe's number of nodes and end")
    options = parser.parse_args(own)
    try:
        recipe = load(options.recipe)
        if options.show_nodes:
            print(recipe["nodes"])
            return 0
        arguments, vocabulary = merge(recipe["arguments"], rest), int(recipe["vocabulary"])
        if options.data is not None:
            found = dataset(options.data)
            vocabulary = int(found.pop("vocabulary") or vocabulary)
            arguments = {**found, **arguments}
        gpus, memory = of_queue(options.settings, options.queue)
        gpus = options.gpus or gpus
        if not gpus:
            raise Refused(f"no GPUs in queue '{options.queue}': give --queue a queue that has some")
        memory = options.gpu_memory or memory
        machine = Machine(options.nodes or recipe["nodes"], gpus, memory)
        one = Recipe(arguments, vocabulary)
        summary = one.check(machine)
        if options.start_from is not None:
            same_model(options.start_from, one)
        if options.checkpoints is not None:
            check_space(options.checkpoints, one)
    except (Refused, ValueError) as problem:
        print(f"recipe {options.recipe}: {problem}", file=sys.stderr)
        return 1
    print("\n".join(command_line(arguments)))
    print(f"recipe {options.recipe}: {summary}", file=sys.stderr)
    return 0


def check_space(folder: Path, recipe: Recipe) -> None:
    """Two checkpoints must fit: the newest stays until the next one is complete. Quotas are not seen."""
    there = next((one for one in (folder, folder.parent, folder.parent.parent) if one.is_dir()), None)
    if there is None:  # the file system is not mounted here
        return
    count = 1 if (folder / "latest_checkpointed_iteration.txt").is_file() else 2
    free, need = shutil.disk_usage(there).free, count * CHECKPOINT_BYTES * recipe.all_parameters()
    if free < need:
        raise Refused(
            f"{folder} has {free / GIB:.0f} GiB free, {count} more checkpoint(s) need {need / GIB:.0f} GiB: "
            "free space there"
        )


def same_model(folder: Path, recipe: Recipe) -> None:
    """A converted checkpoint must be one of the recipe's model."""
    try:
        model = json.loads((folder / "model.json").read_text())
    except (OSError, ValueError) as problem:
        raise Refused(f"{folder} is not a folder that megatron-convert.sbatch wrote: {problem}") from problem
    defaults = {
        "num-query-groups": recipe.groups,
        "kv-channels": recipe.channels,
        "ffn-hidden-size": recipe.feed_forward,
    }
    defaults["rotary-base"] = 10000
    have = {name: recipe.arguments.get(name, defaults.get(name, False)) for name in model if name != "vocabulary"}
    other = [f"{name} is {model[name]} there and {one} here" for name, one in have.items() if float(one) != model[name]]
    if other:
        raise Refused(f"{folder} is a checkpoint of another model: {', '.join(other)}")


def dataset(folder: Path) -> dict[str, Any]:
    """Arguments for a prepared data set, and its `vocabulary`. The files must have the sizes of the manifest."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text())
        for name, one in manifest["files"].items():
            size = (folder / name).stat().st_size
            if size != one["bytes"]:
                raise Refused(f"{folder / name} has {size} bytes, its manifest says {one['bytes']}: prepare it again")
        tokenizer = manifest["tokenizer"]
        return {
            "data-path": str(folder / manifest["prefix"]),
            "tokenizer-type": tokenizer["type"],
            "tokenizer-model": tokenizer["model"],
            "vocabulary": tokenizer["vocabulary"],
        }
    except FileNotFoundError as problem:
        raise Refused(f"no {problem.filename}: {folder} is not a complete data set") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise Refused(f"{folder}/manifest.json is not a manifest of megatron-prepare.sbatch: {problem!r}") from problem


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

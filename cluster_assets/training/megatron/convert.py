"""convert.py to-hf|from-hf: Llama checkpoints between Megatron-LM and Hugging Face, on CPUs, in one process.

    python3 convert.py to-hf   CHECKPOINTS OUTPUT [--iteration N] [--tokenizer FOLDER]
    python3 convert.py from-hf MODEL OUTPUT

Megatron-LM core_v0.16.1 has tools/checkpoint/convert.py, which cannot do this: it reads and writes only the format
`torch`, not `torch_dist`, the format of training; it has no saver for Hugging Face's Llama; and it fixes the parallel
sizes. A checkpoint in `torch_dist` has each parameter once, by its name, whatever the parallel sizes were: tensors of
PyTorch's distributed checkpoint, those of the layers stacked along a first axis, common.pt with the arguments, and
metadata.json. `to-hf` reads the arguments from common.pt, so Megatron-LM must be importable.

Models: Llama 2 and 3 and Qwen 2 (RMSNorm, SwiGLU, rotary positions, biases at most on query, key and value).
Memory: `from-hf` holds the model, `to-hf` the largest stacked parameter. Needs torch and safetensors; Python 3.9 or
later. Exit codes: 0 done; 1 the checkpoint cannot be converted; 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from safetensors import safe_open
from safetensors.torch import save_file

TRACKER = "latest_checkpointed_iteration.txt"
MODEL = "model.json"
"""Of a converted checkpoint: the arguments of its model, which train-megatron.sbatch compares with the recipe's."""
LAYER = "decoder.layers."
Tensors = dict[str, torch.Tensor]
# name in Hugging Face's layer by Megatron-LM's; query, key, value and the two halves of SwiGLU are further down
SAME = {
    "self_attention.linear_qkv.layer_norm_weight": "input_layernorm.weight",
    "self_attention.linear_proj.weight": "self_attn.o_proj.weight",
    "mlp.linear_fc1.layer_norm_weight": "post_attention_layernorm.weight",
    "mlp.linear_fc2.weight": "mlp.down_proj.weight",
}
OUTSIDE = {
    "embedding.word_embeddings.weight": "model.embed_tokens.weight",
    "decoder.final_layernorm.weight": "model.norm.weight",
    "output_layer.weight": "lm_head.weight",
}


class Impossible(Exception):
    """Why a checkpoint cannot be converted."""


def split(name: str, value: torch.Tensor, config: Mapping[str, Any]) -> Tensors:
    """A parameter of one Megatron-LM layer as Hugging Face's."""
    if name in SAME:
        return {SAME[name]: value}
    if name == "mlp.linear_fc1.weight":
        gate, up = value.chunk(2)
        return {"mlp.gate_proj.weight": gate, "mlp.up_proj.weight": up}
    kind = name.rpartition(".")[2]
    if name in ("self_attention.linear_qkv.weight", "self_attention.linear_qkv.bias"):
        # For each group its queries, its key and its value.
        groups, channels = config["num_key_value_heads"], config["head_dim"]
        queries = config["num_attention_heads"] // groups
        parts = value.reshape(groups, (queries + 2) * channels, *value.shape[1:])
        q, k, v = parts.split([queries * channels, channels, channels], dim=1)
        return {f"self_attn.{one}_proj.{kind}": part.flatten(0, 1) for one, part in (("q", q), ("k", k), ("v", v))}
    raise Impossible(f"parameter {LAYER}{name} is not one of a Llama")


def join(name: str, get: Callable[[str], torch.Tensor], config: Mapping[str, Any]) -> torch.Tensor:
    """The inverse of split: `get` reads Hugging Face's parameters of one layer."""
    if name in SAME:
        return get(SAME[name])
    if name == "mlp.linear_fc1.weight":
        return torch.cat([get("mlp.gate_proj.weight"), get("mlp.up_proj.weight")])
    kind = name.rpartition(".")[2]
    parts = [get(f"self_attn.{one}_proj.{kind}") for one in "qkv"]
    groups = config["num_key_value_heads"]
    return torch.cat([part.reshape(groups, -1, *part.shape[1:]) for part in parts], dim=1).flatten(0, 1)


def layer_names(config: Mapping[str, Any]) -> list[str]:
    """Parameters of a Megatron-LM layer."""
    bias = ["self_attention.linear_qkv.bias"] if config["model_type"] == "qwen2" else []
    return [*SAME, "self_attention.linear_qkv.weight", "mlp.linear_fc1.weight", *bias]


def to_config(args: argparse.Namespace) -> dict[str, Any]:
    """Hugging Face's configuration for Megatron-LM's arguments."""
    wanted = {"normalization": "RMSNorm", "swiglu": True, "add_bias_linear": False, "position_embedding_type": "rope"}
    wanted |= {"num_experts": None, "qk_layernorm": False, "multi_latent_attention": False, "use_rope_scaling": False}
    wanted |= {"layernorm_zero_centered_gamma": False, "rotary_percent": 1.0, "mtp_num_layers": None}
    other = [f"{key}={getattr(args, key)}" for key, value in wanted.items() if getattr(args, key, value) != value]
    if other:
        raise Impossible(f"not a Llama that Hugging Face knows: {', '.join(other)}")
    qwen = bool(getattr(args, "add_qkv_bias", False))
    grouped = args.group_query_attention
    return {
        "architectures": ["Qwen2ForCausalLM" if qwen else "LlamaForCausalLM"],
        "model_type": "qwen2" if qwen else "llama",
        "hidden_size": args.hidden_size,
        "intermediate_size": args.ffn_hidden_size,
        "num_hidden_layers": args.num_layers,
        "num_attention_heads": args.num_attention_heads,
        "num_key_value_heads": args.num_query_groups if grouped else args.num_attention_heads,
        "head_dim": args.kv_channels,
        "max_position_embeddings": args.max_position_embeddings,
        "rms_norm_eps": args.layernorm_epsilon,
        "rope_theta": float(args.rotary_base),
        "tie_word_embeddings": not args.untie_embeddings_and_output_weights,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "torch_dtype": "bfloat16",
    }


def rope_scaling(scaling: Mapping[str, Any]) -> bool:
    """Whether positions are scaled as in Llama 3.1. core_v0.16.1 knows that scaling only, and only these values:
    its gpt_builders.py does not pass --rope-scaling-factor on, and rotary_pos_embedding.py fixes the other three.
    """
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    fixed = {"factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 8192}
    other = [f"{name}={scaling.get(name)}" for name, value in fixed.items() if scaling.get(name) != value]
    if kind == "default" or (kind == "llama3" and not other):
        return bool(kind != "default")
    found = f"llama3 with {', '.join(other)}" if kind == "llama3" else str(kind)
    raise Impossible(f"rope_scaling of type {found}: Megatron-LM has only that of Llama 3.1 ({fixed})")


def to_arguments(config: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of the model for Hugging Face's configuration, with those of a recipe's names."""
    if config.get("model_type") not in ("llama", "qwen2") or config.get("hidden_act") != "silu":
        raise Impossible(f"a model of type {config.get('model_type')}: give a Llama or a Qwen 2")
    if config.get("attention_bias") or config.get("mlp_bias"):
        raise Impossible("a Llama with biases is not supported")
    # transformers 5 writes rope_parameters.
    rope = config.get("rope_parameters") or config
    return {
        "use-rope-scaling": rope_scaling(config.get("rope_parameters") or config.get("rope_scaling") or {}),
        "num-layers": config["num_hidden_layers"],
        "hidden-size": config["hidden_size"],
        "ffn-hidden-size": config["intermediate_size"],
        "num-attention-heads": config["num_attention_heads"],
        "num-query-groups": config["num_key_value_heads"],
        "kv-channels": config["head_dim"],
        "rotary-base": int(rope.get("rope_theta", 10000)),
        "norm-epsilon": config["rms_norm_eps"],
        "untie-embeddings-and-output-weights": not config.get("tie_word_embeddings", False),
        "add-qkv-bias": config["model_type"] == "qwen2",
    }


def stored(checkpoint: Path) -> dict[str, Any]:
    """Size and type of each parameter of the model in a checkpoint; the optimizer's are left out."""
    metadata = dcp.FileSystemReader(str(checkpoint)).read_metadata().state_dict_metadata
    return {
        name: one
        for name, one in metadata.items()
        if hasattr(one, "size") and not name.startswith(("optimizer.", "chained_", "rng_state"))
    }


def converted(checkpoint: Path, config: Mapping[str, Any], vocabulary: int | None) -> Iterator[Tensors]:
    """Hugging Face's parameters, those of one Megatron-LM parameter at a time."""
    found = stored(checkpoint)
    names = [LAYER + name for name in layer_names(config)]
    names += [name for name in OUTSIDE if not (config["tie_word_embeddings"] and name == "output_layer.weight")]
    missing = sorted(set(names) - set(found))
    if missing or (other := sorted(set(found) - set(names) - {"output_layer.weight"})):
        text = f"without {', '.join(missing)}" if missing else f"with {', '.join(other)}"
        raise Impossible(f"{checkpoint} is a checkpoint {text}: not of a Llama in the format torch_dist")
    for name in names:
        one = {name: torch.empty(found[name].size, dtype=found[name].properties.dtype)}
        dcp.load(one, storage_reader=dcp.FileSystemReader(str(checkpoint)), no_dist=True)
        value = one[name].to(torch.bfloat16)
        if name in OUTSIDE:
            yield {OUTSIDE[name]: value[:vocabulary] if value.dim() > 1 else value}
        else:
            yield {
                f"model.layers.{number}.{key}": part
                for number, layer in enumerate(value)
                for key, part in split(name[len(LAYER) :], layer, config).items()
            }


def to_hf(folder: Path, output: Path, iteration: int | None, tokenizer: Path | None) -> None:
    """Write a folder that transformers loads."""
    if iteration is None:
        text = (folder / TRACKER).read_text().strip()
        checkpoint = folder / (text if text == "release" else f"iter_{int(text):07d}")
    else:
        checkpoint = folder / f"iter_{iteration:07d}"
    args = torch.load(checkpoint / "common.pt", map_location="cpu", weights_only=False)["args"]
    config = to_config(args)
    tokenizer = tokenizer or Path(getattr(args, "tokenizer_model", None) or "none")
    if not (tokenizer / "tokenizer.json").is_file():
        raise Impossible(f"no tokenizer.json in {tokenizer}: give --tokenizer the folder of the training")
    words = json.loads((tokenizer / "tokenizer.json").read_text())
    special = {one["content"]: one["id"] for one in words.get("added_tokens", [])}
    vocabulary = max([len(words["model"]["vocab"]), *(number + 1 for number in special.values())])
    names = tokenizer / "tokenizer_config.json"
    chosen = json.loads(names.read_text()) if names.is_file() else {}
    config |= {f"{one}_token_id": special.get(str(chosen.get(f"{one}_token"))) for one in ("bos", "eos")}
    output.mkdir()
    weights: dict[str, str] = {}
    total, number = 0, len(layer_names(config)) + (2 if config["tie_word_embeddings"] else 3)
    for index, tensors in enumerate(converted(checkpoint, config, vocabulary), 1):
        name = f"model-{index:05d}-of-{number:05d}.safetensors"
        save_file({key: value.contiguous() for key, value in tensors.items()}, output / name, metadata={"format": "pt"})
        weights |= dict.fromkeys(tensors, name)
        total += sum(value.nbytes for value in tensors.values())
        if "model.embed_tokens.weight" in tensors:
            config["vocab_size"] = len(tensors["model.embed_tokens.weight"])
    for path in tokenizer.iterdir():
        if path.suffix == ".json" and path.name not in ("config.json", "generation_config.json") and path.is_file():
            shutil.copyfile(path, output / path.name)
    # The index last: without it transformers finds no model.
    (output / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    index_text = json.dumps({"metadata": {"total_size": total}, "weight_map": weights}, indent=1)
    (output / "model.safetensors.index.json").write_text(index_text + "\n")
    print(f"{len(weights)} parameters, {total / 2**30:.2f} GiB, of {checkpoint}")


def from_hf(model: Path, output: Path) -> None:
    """Write a checkpoint `release` in the format torch_dist."""
    config = json.loads((model / "config.json").read_text())
    config["num_key_value_heads"] = config.get("num_key_value_heads") or config["num_attention_heads"]
    config["head_dim"] = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    arguments = to_arguments(config)
    files: dict[str, Path] = {}
    for path in sorted(model.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            files |= dict.fromkeys(file.keys(), path)

    def get(layer: int | None, name: str) -> torch.Tensor:
        name = name if layer is None else f"model.layers.{layer}.{name}"
        if name not in files:
            raise Impossible(f"{model} has no parameter {name} in its *.safetensors")
        with safe_open(files[name], "pt") as file:
            return torch.as_tensor(file.get_tensor(name)).to(torch.bfloat16)

    state: dict[str, Any] = {}
    for name in layer_names(config):
        layers = [join(name, partial(get, number), config) for number in range(config["num_hidden_layers"])]
        state[LAYER + name] = torch.stack(layers)
    for name, key in OUTSIDE.items():
        if name != "output_layer.weight" or arguments["untie-embeddings-and-output-weights"]:
            state[name] = get(None, key)
    checkpoint = output / "release"
    checkpoint.mkdir(parents=True)
    dcp.save(state, storage_writer=dcp.FileSystemWriter(checkpoint), no_dist=True)
    # What megatron/core/dist_checkpointing writes next to the tensors.
    content = {"singleton_local_shards": False, "chained_optim_avoid_prefix": True}
    common = {"checkpoint_version": 3.0, "iteration": 0, "content_metadata": content}
    torch.save(common, checkpoint / "common.pt")
    backends = {"sharded_backend": "torch_dist", "sharded_backend_version": 1}
    (checkpoint / "metadata.json").write_text(
        json.dumps(backends | {"common_backend": "torch", "common_backend_version": 1})
    )
    (output / MODEL).write_text(json.dumps({**arguments, "vocabulary": config["vocab_size"]}, indent=1) + "\n")
    (output / TRACKER).write_text("release")
    print(f"{sum(value.numel() for value in state.values()) / 1e9:.2f} billion parameters of {model}")


def main(words: list[str]) -> int:
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="convert.py", description="Convert Llama checkpoints.")
    commands = parser.add_subparsers(dest="command", required=True)
    exporter = commands.add_parser("to-hf", help="from Megatron-LM to Hugging Face")
    exporter.add_argument("source", type=Path)
    exporter.add_argument("output", type=Path)
    exporter.add_argument("--iteration", type=int, help="default: the newest")
    exporter.add_argument("--tokenizer", type=Path, help="default: that of the training")
    importer = commands.add_parser("from-hf", help="from Hugging Face to Megatron-LM")
    importer.add_argument("source", type=Path)
    importer.add_argument("output", type=Path)
    options = parser.parse_args(words)
    try:
        if options.command == "to-hf":
            to_hf(options.source, options.output, options.iteration, options.tokenizer)
        else:
            from_hf(options.source, options.output)
    except (Impossible, OSError, ValueError, KeyError) as problem:
        print(
            f"convert.py: {problem!s}" if isinstance(problem, Impossible) else f"convert.py: {problem!r}",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Weights in Hugging Face's format: read as a start of training, and written from a checkpoint.

    python3 weights.py CHECKPOINT FOLDER [--dtype bfloat16]   exports a checkpoint; FOLDER must not exist

The export needs torch and safetensors, and memory for one file of 4 GiB; it runs without GPUs.

Exit codes: 0 done; 1 the checkpoint or the folder cannot be used; 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint import FileSystemReader, HuggingFaceStorageReader, load

sys.path.insert(0, str(Path(__file__).resolve().parent))
import checkpoint
from llama import Llama, LlamaConfig, from_hugging_face, to_hugging_face
from saving import RUN, CheckpointError

FILE_BYTES = 4 * 1024**3


def read_weights(model: Llama, folder: Path, config: LlamaConfig) -> None:
    """Load a folder of safetensors into a model, which may be sharded.

    Raises:
        CheckpointError: the folder is of another model, incomplete, or safetensors is missing.
    """
    try:
        found = from_hugging_face(json.loads((folder / "config.json").read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(
            f"--weights {folder}: config.json: {error}. Give a folder of a Llama's weights"
        ) from error
    pairs = [(one.name, getattr(found, one.name), getattr(config, one.name)) for one in fields(config)]
    if differing := [f"{name} {theirs} instead of {ours}" for name, theirs, ours in pairs if theirs != ours]:
        raise CheckpointError(f"--weights {folder} is of another model: {', '.join(differing)}. Give --config {folder}")
    if not list(folder.glob("*.safetensors")):
        raise CheckpointError(f"--weights {folder} has no .safetensors files")
    try:
        load(dict(model.named_parameters()), storage_reader=HuggingFaceStorageReader(str(folder)))
    except ImportError as error:
        raise CheckpointError(f"--weights needs the Python package {error.name}: use an image that has it") from error
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise CheckpointError(f"--weights {folder} cannot be read, or is not complete: {error}") from error


def export(source: Path, target: Path, dtype: torch.dtype) -> int:
    """Write a checkpoint's weights as safetensors with config.json and index. Returns the number of parameters.

    Raises:
        CheckpointError: the checkpoint is incomplete or damaged, or the folder exists.
    """
    from safetensors.torch import save_file

    found = checkpoint.read(source)
    if found is None:
        raise CheckpointError(f"{source} is not a complete checkpoint: give one with a manifest.json")
    if bad := checkpoint.damaged(found):
        raise CheckpointError(f"{source} is damaged ({', '.join(bad)}): give another checkpoint")
    if target.exists():
        raise CheckpointError(f"{target} exists: nothing is overwritten; give another folder")
    config = LlamaConfig(**json.loads((source / RUN).read_text())["model"])
    with torch.device("meta"):
        shapes = {name: weight.shape for name, weight in Llama(config).named_parameters()}
    files: list[list[str]] = [[]]
    size = 0
    for name, shape in shapes.items():
        size += shape.numel() * dtype.itemsize
        if files[-1] and size > FILE_BYTES:
            files.append([])
            size = shape.numel() * dtype.itemsize
        files[-1].append(name)
    prepared = target.with_name(f".{target.name}.partial-{os.getpid()}")
    prepared.mkdir(parents=True)
    try:
        index: dict[str, Any] = {"metadata": {"total_size": 0}, "weight_map": {}}
        for number, names in enumerate(files, 1):
            file = f"model-{number:05d}-of-{len(files):05d}.safetensors"
            state = {name: torch.empty(shapes[name]) for name in names}
            load({"model": state}, storage_reader=FileSystemReader(source), no_dist=True)
            save_file({name: one.to(dtype) for name, one in state.items()}, prepared / file, {"format": "pt"})
            index["weight_map"] |= dict.fromkeys(names, file)
            index["metadata"]["total_size"] += sum(shapes[name].numel() * dtype.itemsize for name in names)
        (prepared / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")
        written = {**to_hugging_face(config), "torch_dtype": str(dtype).removeprefix("torch.")}
        (prepared / "config.json").write_text(json.dumps(written, indent=1) + "\n")
        prepared.rename(target)
    finally:
        shutil.rmtree(prepared, ignore_errors=True)
    return sum(shape.numel() for shape in shapes.values())


def main(arguments: list[str]) -> int:
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="weights.py", description="Export a checkpoint to Hugging Face's format.")
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    options = parser.parse_args(arguments)
    try:
        count = export(options.checkpoint, options.folder, getattr(torch, options.dtype))
    except (CheckpointError, OSError, ImportError, KeyError) as error:
        print(f"weights.py: {error}", file=sys.stderr)
        return 1
    print(f"{options.folder}: {count:,} parameters in {options.dtype}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

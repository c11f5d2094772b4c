"""What one process of train_distributed_deepspeed.py does for all: weights, tokens, and the choice of checkpoints."""

from __future__ import annotations

import argparse
import hashlib
import os
from pathlib import Path
from typing import Any

import checkpoint
import fine_tuning
import torch
from fine_tuning import Refusal
from token_shards import ShardError, Tokenizer, sha256_of, write
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer


def say(text: str) -> None:
    """A line in the job's output."""
    print(f"deepspeed: {text}", flush=True)


def download(name: str, cache: Path) -> Path:
    """Weights and tokenizer of the Hugging Face Hub, or of its cache."""
    from huggingface_hub import snapshot_download

    try:
        files = ["*.json", "*.safetensors", "*.txt", "tokenizer.model"]
        return Path(snapshot_download(name, cache_dir=cache / "huggingface" / "hub", allow_patterns=files))
    except (OSError, ValueError) as error:
        raise Refusal(
            f"cannot get {name} from the Hugging Face Hub or from {cache}/huggingface: {error}. Without a network "
            "give --weights FOLDER, a copy of the model on the shared file system"
        ) from error


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer of a folder of weights."""
    try:
        return AutoTokenizer.from_pretrained(folder)
    except Exception as error:  # tokenizers raises no other class
        raise Refusal(f"the tokenizer in {folder} cannot be loaded ({error}): copy the model's again") from error


def random_weights(folder: Path, given: argparse.Namespace) -> Path:
    """A folder with random weights and the tokenizer of `folder`: the same for each ZeRO stage and world."""
    fine_tuning.read_weights(folder, from_scratch=True)
    config = AutoConfig.from_pretrained(folder)
    digest = hashlib.sha256()
    for name in ("config.json", *fine_tuning.TOKENIZER_FILES):
        digest.update((folder / name).read_bytes() if (folder / name).is_file() else b"")
    target = given.cache / "random" / f"{digest.hexdigest()[:16]}-{given.seed}"
    if not target.is_dir():
        torch.manual_seed(given.seed)
        prepared = target.with_name(f".{target.name}-{os.getpid()}")
        AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(prepared)
        load_tokenizer(folder).save_pretrained(prepared)
        prepared.rename(target)
    return target


def prepare_tokens(given: argparse.Namespace, tokenizer: Any, made_by: Tokenizer, split: str) -> Path:
    """Token shards of a split, from the cache if an earlier run made them."""
    files = fine_tuning.data_files(given.data, split)
    folder = fine_tuning.tokens_folder(given.cache, made_by.sha256, files)
    if (folder / "manifest.json").is_file():
        say(f"{split}: tokens from {folder}")
        return folder
    texts = map(fine_tuning.text_of, files)
    try:
        write(
            folder,
            (tokenizer(text, return_attention_mask=False, verbose=False)["input_ids"] for text in texts),
            made_by,
        )
        say(f"{split}: tokens written to {folder}")
    except ShardError:
        if not (folder / "manifest.json").is_file():  # otherwise another run was faster
            raise
    return folder


def prepare(given: argparse.Namespace) -> dict[str, Any]:
    """What one process does for all: the weights, the tokens, and the choice of checkpoints, newest first."""
    folder = given.weights or download(given.model, given.cache)
    if given.from_scratch:
        folder = random_weights(folder, given)
    weights = fine_tuning.read_weights(folder, from_scratch=False)
    tokenizer = load_tokenizer(folder)
    if tokenizer.eos_token_id is None:
        raise Refusal(
            f"the tokenizer in {folder} has no end-of-text token: give eos_token in its tokenizer_config.json"
        )
    named = next(folder / name for name in fine_tuning.TOKENIZER_FILES if (folder / name).is_file())
    made_by = Tokenizer(str(given.weights or given.model), sha256_of(named), len(tokenizer), tokenizer.eos_token_id)
    tokens = {split: prepare_tokens(given, tokenizer, made_by, split) for split in ("train", "test")}
    for path in (given.checkpoints, given.logs, given.tensorboard, given.output):
        path.mkdir(parents=True, exist_ok=True)
    found = list(checkpoint.complete(given.checkpoints))
    if start := os.environ.get("RESUME_FROM"):
        found = [one] if (one := checkpoint.read(Path(start))) else found
    if not (found and found[0].final):
        fine_tuning.check_space(given, weights.parameters)
    return {"folder": folder, "weights": weights, "tokens": tokens, "checkpoints": found}

"""What the DeepSpeed program decides without PyTorch: its options, its checks, its data order and its configuration.

    python3 fine_tuning.py [OPTION...]   checks a run as far as this machine can, before GPUs are held; the options are
                                         those of train_distributed_deepspeed.py (--help lists them)

The standard library only, Python 3.9 or later: the job calls it on the host, the program in the container imports it.
Exit codes: 0 nothing wrong; 2 the run cannot work, the reason is on stderr.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import shutil
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import checkpoint

RUN = "run.json"  # in each checkpoint: the settings that a resumed run must share
TEXT_ENDINGS = (".parquet", ".txt", ".tokens")
MODEL_SIZES = ("architectures", "hidden_size", "intermediate_size", "num_hidden_layers", "vocab_size")
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json")
CHECKPOINT_BYTES = 14  # per parameter: weights in 16 bits; master weights and two moments of Adam in 32
EXPORT_BYTES = 2


class Refusal(Exception):
    """The run cannot work: what was given, what is allowed, what to do."""


@dataclass(frozen=True)
class Weights:
    """Weights on a file system: config.json, and the number of parameters of their files (0 without files)."""

    folder: Path
    config: dict[str, Any]
    parameters: int


def parser() -> argparse.ArgumentParser:
    """The command line. Folders default to those that the jobs export."""

    def folder(variable: str, below: str = "") -> Path | None:
        return Path(os.environ[variable], below) if os.environ.get(variable) else None

    top = argparse.ArgumentParser(
        prog="train_distributed_deepspeed.py", description="Fine-tunes a causal language model."
    )
    add = top.add_argument
    add("--model", default="Qwen/Qwen2.5-0.5B", help="name on the Hugging Face Hub (default: %(default)s)")
    add("--weights", type=Path, help="folder with config.json, *.safetensors and the tokenizer; nothing is downloaded")
    add("--from-scratch", action="store_true", help="random weights of the sizes in config.json")
    add("--data", type=Path, default=folder("DATA_DIR", "wikitext-2"), help="folder with *train* and *test* files")
    add("--cache", type=Path, default=folder("DATA_DIR", ".cache"), help="shared folder for downloads and tokens")
    add("--zero", type=int, choices=(2, 3), default=2, help="ZeRO stage (default: 2)")
    add("--deepspeed-config", "--deepspeed_config", type=Path, help="instead of the file for the ZeRO stage")
    add("--steps", type=int, default=500, help="optimizer steps in all (default: 500)")
    add("--length", type=int, default=1024, help="tokens a sample (default: 1024)")
    add("--batch", type=int, help="samples a step, over all processes (default: the configuration's)")
    add("--micro-batch", type=int, help="samples a process computes at once (default: the configuration's)")
    add("--rate", type=float, help="learning rate (default: the configuration's)")
    add("--activation-checkpointing", action="store_true", help="less memory, a third more computation")
    add("--seed", type=int, default=1)
    add("--save-every", type=int, default=100, help="steps between two checkpoints (default: 100)")
    add("--keep", type=int, default=2, help="complete checkpoints to keep (default: 2)")
    add("--checkpoints", type=Path, default=folder("CHECKPOINT_DIR"))
    add("--logs", type=Path, default=folder("LOG_DIR"), help="folder for metrics.jsonl")
    add("--tensorboard", type=Path, default=folder("TENSORBOARD_DIR"))
    add("--output", type=Path, default=folder("OUTPUT_DIR"), help="folder for the model and summary.json")
    add("--nondeterministic", action="store_true", help="faster kernels; losses after a resume are then only similar")
    add("--no-verify", action="store_true", help="do not evaluate the exported model (it must fit one GPU)")
    add("--processes", type=int, help=argparse.SUPPRESS)  # the job's number, for the check on the host
    add("--local_rank", type=int, default=0, help=argparse.SUPPRESS)  # DeepSpeed's own launcher passes it
    return top


def check(given: argparse.Namespace) -> None:
    """Refuse a run that cannot work, as far as options and files show it.

    Raises:
        Refusal: the first fault found.
    """
    for name in ("data", "cache", "checkpoints", "logs", "tensorboard", "output"):
        if getattr(given, name) is None:
            raise Refusal(f"no --{name}: give a folder, or start the program by train-deepspeed.sbatch, which sets all")
    least = {"steps": 1, "length": 2, "batch": 1, "micro_batch": 1, "save_every": 1, "keep": 1}
    for name, limit in least.items():
        value = getattr(given, name)
        if value is not None and value < limit:
            raise Refusal(f"--{name.replace('_', '-')} {value}: give {limit} or more")
    for split in ("train", "test"):
        data_files(given.data, split)
    weights = read_weights(given.weights, from_scratch=given.from_scratch) if given.weights else None
    if given.deepspeed_config and given.deepspeed_config.is_file():
        deepspeed_config(given.deepspeed_config, given, given.processes)
    newest = next(checkpoint.complete(given.checkpoints), None)
    if newest:
        if newest.final and newest.step != given.steps:
            raise Refusal(
                f"this experiment ended at step {newest.step}, --steps {given.steps}: to train further give another "
                f"--experiment and --weights {given.output / 'model'}"
            )
        compare(newest.path, settings(given, weights.config if weights else None))
    if (given.output / "model").exists() and not (newest and newest.final):
        raise Refusal(
            f"{given.output / 'model'} exists, but {given.checkpoints} has no final checkpoint of its run: nothing is "
            "overwritten; give another --experiment, or move the model away"
        )
    if weights and weights.parameters and not (newest and newest.final):
        check_space(given, weights.parameters)


def data_files(folder: Path, split: str) -> list[Path]:
    """The files of one split ("train", "test"), in order."""
    found = sorted(path for path in folder.rglob(f"*{split}*") if path.suffix in TEXT_ENDINGS and path.is_file())
    if not found:
        raise Refusal(
            f"{folder} has no *{split}*.parquet, *{split}*.txt or *{split}*.tokens: copy the data set there "
            "(trainyard data fetch and push), or give --data FOLDER"
        )
    if len(folders := sorted({str(path.parent) for path in found})) > 1:
        raise Refusal(f"{split} files in several folders: {', '.join(folders)}; give one of them: --data {folders[0]}")
    if empty := [path for path in found if path.stat().st_size == 0]:
        raise Refusal(f"{empty[0]} is empty: copy it again")
    return found


def read_weights(folder: Path, *, from_scratch: bool) -> Weights:
    """Check a folder of weights without loading them: tokenizer, complete files, and that the tokenizer fits."""
    advice = (
        f"give --weights a complete copy of the model, for example: hf download Qwen/Qwen2.5-0.5B --local-dir {folder}"
    )
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        vocabulary = int(config["vocab_size"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Refusal(f"{folder}/config.json is not a model's configuration ({error!r}): {advice}") from error
    if not any((folder / name).is_file() for name in TOKENIZER_FILES):
        raise Refusal(f"{folder} has no tokenizer ({', '.join(TOKENIZER_FILES)}): {advice}")
    largest = largest_token(folder / "tokenizer.json")
    if largest >= vocabulary:
        raise Refusal(
            f"the tokenizer in {folder} has token {largest}, the model's vocabulary {vocabulary} tokens: the tokenizer "
            "belongs to another model; copy both from the same place"
        )
    files = {path.name for path in folder.glob("*.safetensors")}
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        wanted = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        if missing := sorted(wanted - files):
            raise Refusal(f"{folder} lacks {', '.join(missing)} of {index.name}: {advice}")
        files &= wanted
    if not files and not from_scratch:
        raise Refusal(f"{folder} has no *.safetensors: {advice}; or give --from-scratch for random weights")
    return Weights(folder, config, 0 if from_scratch else sum(parameters_of(folder / name) for name in sorted(files)))


def largest_token(file: Path) -> int:
    """The largest id in a tokenizer.json; -1 without the file."""
    if not file.is_file():
        return -1
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        vocabulary = content["model"]["vocab"]
        ids = vocabulary.values() if isinstance(vocabulary, dict) else range(len(vocabulary))
        return int(max([*ids, *(token["id"] for token in content.get("added_tokens", []))]))
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise Refusal(f"{file} is not a tokenizer of Hugging Face ({error!r}): copy it again") from error


def parameters_of(file: Path) -> int:
    """Parameters of a safetensors file, whose header must fit its size."""
    try:
        with file.open("rb") as opened:
            (length,) = struct.unpack("<Q", opened.read(8))
            header = json.loads(opened.read(min(length, 100_000_000)))
        tensors = [value for name, value in header.items() if name != "__metadata__"]
        expected = 8 + length + max(one["data_offsets"][1] for one in tensors)
        sizes = [one["shape"] for one in tensors]
    except (OSError, ValueError, KeyError, TypeError, struct.error) as error:
        raise Refusal(f"{file} is not a safetensors file ({error!r}): copy it again") from error
    if file.stat().st_size != expected:
        raise Refusal(f"{file} has {file.stat().st_size} bytes, its header says {expected}: copy it again")
    return sum(map(math.prod, sizes))


def check_space(given: argparse.Namespace, parameters: int) -> None:
    """Refuse a run whose checkpoints or model do not fit. A quota shows only when it is reached."""
    missing = max(0, given.keep - sum(1 for _ in checkpoint.complete(given.checkpoints))) + 1
    for path, need, what in (
        (given.checkpoints, missing * CHECKPOINT_BYTES * parameters, f"{missing} checkpoints"),
        (given.output, EXPORT_BYTES * parameters, "the model"),
    ):
        there = next(one for one in (path, *path.absolute().parents) if one.is_dir())
        free = shutil.disk_usage(there).free
        if free < need:
            raise Refusal(
                f"{path} has {free / 2**30:.1f} GiB free, {what} of {parameters:,} parameters need "
                f"{need / 2**30:.1f}: free space, or give --keep 1 or another folder"
            )


def settings(given: argparse.Namespace, config: dict[str, Any] | None, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """What decides the losses of a run: run.json of its checkpoints. Without weights no sizes of the model."""
    result: dict[str, Any] = {"length": given.length, "seed": given.seed}
    if given.deepspeed_config is None:
        result["zero"] = given.zero
    for name in ("batch", "processes"):
        if getattr(given, name) is not None:
            result[name] = getattr(given, name)
    if config:
        result |= {name: config[name] for name in MODEL_SIZES if name in config}
    return result | more


def compare(path: Path, wanted: dict[str, Any]) -> None:
    """Refuse a checkpoint of another run; compares what both know."""
    try:
        found = json.loads((path / RUN).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Refusal(f"{path} is not a checkpoint of this program ({error!r}): give another --experiment") from error
    different = [
        f"{name}: {found[name]!r} there, {wanted[name]!r} now"
        for name in sorted(found.keys() & wanted.keys())
        if found[name] != wanted[name]
    ]
    if different:
        raise Refusal(
            f"{path} is of another run ({'; '.join(different)}): give the same settings to resume it, or another "
            "--experiment to start from step 0. A ZeRO checkpoint also needs the same number of processes"
        )


def deepspeed_config(file: Path, given: argparse.Namespace, world: int | None) -> dict[str, Any]:
    """DeepSpeed's configuration with the options' values; refuses batch sizes that do not divide."""
    try:
        config: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        stage = int(config["zero_optimization"]["stage"])
        config["train_batch_size"] = batch = int(given.batch or config["train_batch_size"])
        micro = int(given.micro_batch or config["train_micro_batch_size_per_gpu"])
        config["train_micro_batch_size_per_gpu"] = micro
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Refusal(
            f"{file} is not a configuration for this program ({error!r}): it needs zero_optimization.stage, "
            "train_batch_size and train_micro_batch_size_per_gpu; ds_config.json is an example"
        ) from error
    if stage not in (1, 2, 3):
        raise Refusal(f"{file}: zero_optimization.stage {stage}: give 1, 2 or 3")
    if world and batch % (micro * world):
        fits = max(1, round(batch / (micro * world))) * micro * world
        raise Refusal(
            f"--batch {batch} cannot be divided by {world} processes x --micro-batch {micro}: give a multiple of "
            f"{micro * world}, for example --batch {fits}"
        )
    config.pop("gradient_accumulation_steps", None)  # follows from the other two
    schedule = config.get("scheduler", {}).get("params", {})
    schedule.setdefault("total_num_steps", given.steps)
    if "warmup_num_steps" in schedule:
        schedule["warmup_num_steps"] = max(1, min(schedule["warmup_num_steps"], given.steps - 1))
    if given.rate is not None:
        config["optimizer"]["params"]["lr"] = given.rate
        if "warmup_max_lr" in schedule:
            schedule["warmup_max_lr"] = given.rate
    return config


def tokens_folder(cache: Path, tokenizer_sha256: str, files: list[Path]) -> Path:
    """Where the tokens of these files are kept: named by the tokenizer and each file's name, size and time."""
    digest = hashlib.sha256(tokenizer_sha256.encode())
    for file in files:
        state = file.stat()
        digest.update(f"{file.resolve()}\0{state.st_size}\0{state.st_mtime_ns}\0".encode())
    return cache / "tokens" / digest.hexdigest()[:24]


def text_of(file: Path) -> str:
    """A file's text; rows of a parquet file are joined by an empty line, as the published perplexities do."""
    if file.suffix != ".parquet":
        return file.read_text(encoding="utf-8")
    import pyarrow.parquet  # type: ignore[import-not-found, unused-ignore]

    rows = pyarrow.parquet.read_table(file, columns=["text"]).column("text").to_pylist()
    return "\n\n".join(rows)


def samples_of_step(step: int, batch: int, count: int, seed: int) -> list[int]:
    """The samples of a step, of `count` in all: independent of processes and restarts. Each epoch has its own order."""
    from samples import scattered

    places = (divmod(index, count) for index in range(step * batch, (step + 1) * batch))
    return [scattered(position, count, seed * 1_000_003 + epoch) for epoch, position in places]


def evaluation_batches(tokens: int, length: int, size: int) -> list[tuple[list[int], int]]:
    """(starts, length) of batches that cover the tokens once; only the last one may be shorter."""
    starts = list(range(0, tokens - length + 1, length))
    batches = [(starts[first : first + size], length) for first in range(0, len(starts), size)]
    rest = tokens - len(starts) * length
    return [*batches, ([len(starts) * length], rest)] if rest > 1 else batches


def flops_per_token(parameters: int, config: dict[str, Any], length: int) -> float:
    """Of the model, forward and backward, as training/llama.py counts them: without look-ups, with causal attention."""
    matrices = parameters - (0 if config.get("tie_word_embeddings") else config["vocab_size"] * config["hidden_size"])
    return float(6 * matrices + 6 * config["num_hidden_layers"] * config["hidden_size"] * length)


def main(arguments: list[str]) -> int:
    """Check a run before GPUs are held."""
    try:
        check(parser().parse_args(arguments))
    except Refusal as refusal:
        print(f"fine_tuning.py: {refusal}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

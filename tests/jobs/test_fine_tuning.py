"""What the DeepSpeed job decides without PyTorch: refusals before GPUs are held, order of samples, configuration."""

from __future__ import annotations

import argparse
import hashlib
import json
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from tests.jobs.conftest import ROOT, TRAINING, load_module
from tests.jobs.test_command_line import run, settings, slurm

CONTAINER = ROOT / "container"
fine = load_module(TRAINING / "fine_tuning.py")
checkpoint = fine.checkpoint
__all__ = ["settings", "slurm"]


def safetensors(path: Path, rows: int = 8, width: int = 4) -> None:
    header = json.dumps(
        {"w": {"dtype": "BF16", "shape": [rows, width], "data_offsets": [0, rows * width * 2]}}
    ).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(rows * width * 2))


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """A data set and weights."""
    data, model = tmp_path / "data/wikitext-2", tmp_path / "model"
    data.mkdir(parents=True)
    model.mkdir()
    for split in ("train", "test"):
        (data / f"wiki.{split}.tokens").write_text("text")
    sizes = {"hidden_size": 4, "num_hidden_layers": 1, "vocab_size": 8, "tie_word_embeddings": True}
    (model / "config.json").write_text(json.dumps(sizes))
    (model / "tokenizer.json").write_text(
        json.dumps({"model": {"vocab": {"a": 0, "b": 6}}, "added_tokens": [{"id": 7}]})
    )
    safetensors(model / "model.safetensors")
    return tmp_path


def options(folders: Path, *more: str) -> argparse.Namespace:
    names = {
        "checkpoints": "c",
        "logs": "l",
        "tensorboard": "t",
        "output": "o",
        "cache": "k",
        "data": "data/wikitext-2",
    }
    words = [f"--{name}={folders / folder}" for name, folder in names.items()]
    given: argparse.Namespace = fine.parser().parse_args([*words, "--weights", str(folders / "model"), *more])
    return given


def write_checkpoint(folders: Path, step: int = 100, *, final: bool = False, **values: object) -> None:
    prepared = checkpoint.partial(folders / "c", step, "job")
    prepared.mkdir(parents=True)
    run_file = prepared / fine.RUN
    run_file.write_text(json.dumps(fine.settings(options(folders), None) | values))
    target = folders / "c" / checkpoint.name_of(step)
    checkpoint.publish(prepared, target, {fine.RUN: checkpoint.sync_and_hash(run_file)}, step=step, final=final)


def test_a_good_run_passes_at_the_start_in_the_middle_and_at_the_end(folders: Path) -> None:
    fine.check(options(folders))
    write_checkpoint(folders, vocab_size=8, processes=16)
    fine.check(options(folders, "--processes", "16"))
    write_checkpoint(folders, 500, final=True)
    (folders / "o/model").mkdir(parents=True)
    fine.check(options(folders))
    weights = fine.read_weights(folders / "model", from_scratch=False)
    assert weights.parameters == 32
    assert fine.flops_per_token(32, weights.config, 10) == 6 * 32 + 6 * 4 * 10


def model_file(name: str, content: str | None) -> Callable[[Path], None]:
    """Replaces a file of the weights, or removes it."""

    def change(folders: Path) -> None:
        path = folders / "model" / name
        path.unlink() if content is None else path.write_text(content)

    return change


def cut(folders: Path) -> None:
    path = folders / "model/model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def second_copy(folders: Path) -> None:
    (folders / "data/wikitext-2/raw").mkdir()
    (folders / "data/wikitext-2/raw/wiki.train.raw.txt").write_text("text")


INDEX = '{"weight_map": {"w": "model-00001-of-00002.safetensors"}}'


@pytest.mark.parametrize(
    ("change", "more", "says"),
    [
        (lambda at: (at / "data/wikitext-2/wiki.test.tokens").unlink(), [], "has no *test*.parquet"),
        (lambda at: (at / "data/wikitext-2/wiki.train.tokens").write_text(""), [], "wiki.train.tokens is empty"),
        (second_copy, [], "train files in several folders"),
        (model_file("config.json", None), [], "config.json is not a model's configuration"),
        (model_file("config.json", "[]"), [], "config.json is not a model's configuration"),
        (model_file("tokenizer.json", None), [], "has no tokenizer"),
        (model_file("tokenizer.json", "{}"), [], "is not a tokenizer of Hugging Face"),
        (model_file("config.json", '{"vocab_size": 7}'), [], "has token 7, the model's vocabulary 7 tokens"),
        (model_file("model.safetensors", None), [], "or give --from-scratch"),
        (model_file("model.safetensors", "zip"), [], "is not a safetensors file"),
        (model_file("model.safetensors.index.json", INDEX), [], "lacks model-00001-of-00002.safetensors"),
        (cut, [], "its header says"),
        (lambda at: (at / "o/model").mkdir(parents=True), [], "nothing is overwritten"),
        (lambda at: write_checkpoint(at, zero=3), [], "zero: 3 there, 2 now"),
        (lambda at: write_checkpoint(at, vocab_size=9), [], "vocab_size: 9 there, 8 now"),
        (lambda at: write_checkpoint(at, processes=8), ["--processes", "16"], "processes: 8 there, 16 now"),
        (lambda at: write_checkpoint(at, final=True), ["--steps", "900"], "ended at step 100, --steps 900"),
        (lambda _: None, ["--steps", "0"], "--steps 0: give 1 or more"),
        (lambda _: None, ["--micro-batch", "0"], "--micro-batch 0: give 1 or more"),
        (
            lambda _: None,
            ["--processes", "3"],
            "cannot be divided by 3 processes x --micro-batch 4: give a multiple of 12",
        ),
        (model_file("ds.json", "{}"), ["--deepspeed-config", "{at}/model/ds.json"], "is not a configuration"),
    ],
)
def test_a_run_that_cannot_work_is_refused(
    change: Callable[[Path], None], more: list[str], says: str, folders: Path
) -> None:
    change(folders)
    before = sorted(folders.rglob("*"))
    if "--processes" in more and "there" not in says:
        more = [*more, "--deepspeed-config", str(CONTAINER / "ds_config.json")]
    with pytest.raises(fine.Refusal) as refusal:
        fine.check(options(folders, *(word.format(at=folders) for word in more)))
    assert says in str(refusal.value)
    assert sorted(folders.rglob("*")) == before


def test_no_space_is_refused(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fine.shutil, "disk_usage", lambda _: argparse.Namespace(free=32 * 14 * 3 - 1))
    with pytest.raises(fine.Refusal, match="3 checkpoints of 32 parameters"):
        fine.check(options(folders))
    fine.check(options(folders, "--keep", "1"))


@pytest.mark.parametrize(("name", "stage"), [("ds_config.json", 2), ("ds_config_zero3.json", 3)])
def test_the_configurations_of_the_image(name: str, stage: int, folders: Path) -> None:
    given = options(folders, "--batch", "96", "--micro-batch", "3", "--rate", "0.5", "--steps", "9")
    config = fine.deepspeed_config(CONTAINER / name, given, 16)
    assert config["zero_optimization"]["stage"] == stage
    assert (config["train_batch_size"], config["train_micro_batch_size_per_gpu"]) == (96, 3)
    assert config["optimizer"]["params"]["lr"] == config["scheduler"]["params"]["warmup_max_lr"] == 0.5
    assert config["scheduler"]["params"]["total_num_steps"] == 9
    assert config["scheduler"]["params"]["warmup_num_steps"] == 8
    assert name in (CONTAINER / "train_distributed_deepspeed.py").read_text()
    assert name in (CONTAINER / "Dockerfile").read_text() and name in (CONTAINER / "check_image.py").read_text()


def test_each_epoch_has_every_sample_once_in_its_own_order() -> None:
    epochs = [
        [one for step in range(5) for one in fine.samples_of_step(5 * epoch + step, 8, 40, 1)] for epoch in (0, 1)
    ]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(40))
    assert epochs[0] != epochs[1]
    assert fine.samples_of_step(0, 8, 40, 2) != epochs[0][:8]


@pytest.mark.parametrize(("tokens", "whole", "rest"), [(100, 100, 0), (107, 100, 7), (101, 100, 0), (7, 0, 7)])
def test_an_evaluation_covers_the_tokens_once(tokens: int, whole: int, rest: int) -> None:
    batches = fine.evaluation_batches(tokens, 10, 4)
    seen = [at for starts, length in batches for start in starts for at in range(start, start + length)]
    assert seen == list(range(whole + rest))
    assert all(len(starts) <= 4 for starts, _ in batches)


def test_tokens_are_kept_by_tokenizer_and_files(folders: Path) -> None:
    files = fine.data_files(folders / "data/wikitext-2", "train")
    first = fine.tokens_folder(folders, hashlib.sha256(b"a").hexdigest(), files)
    assert first == fine.tokens_folder(folders, hashlib.sha256(b"a").hexdigest(), files)
    assert first != fine.tokens_folder(folders, hashlib.sha256(b"b").hexdigest(), files)
    files[0].write_text("more text")
    assert first != fine.tokens_folder(folders, hashlib.sha256(b"a").hexdigest(), files)
    assert fine.text_of(files[0]) == "more text"


def test_the_job_checks_before_it_submits(folders: Path, settings: Path, slurm: str) -> None:
    found = json.loads(settings.read_text())
    found["folders"] |= {name: str(folders / name) for name in ("data", "checkpoints", "logs", "results")}
    settings.write_text(json.dumps(found))
    (folders / "model").rename(folders / "data/qwen")
    weights = ["--weights", "qwen"]
    done = run("train-deepspeed.sbatch", "--image", "a", *weights, settings=settings, path=slurm)
    assert done.returncode == 0, done.stderr
    assert "train-deepspeed.sbatch" in done.stdout.splitlines()[-5]
    for words, says in (
        (
            ["--nodes", "3", "--procs", "1", "--config", str(CONTAINER / "ds_config.json")],
            "cannot be divided by 3 processes",
        ),
        (["--", "--length", "1"], "--length 1: give 2 or more"),
        (["--", "--nonsense"], "unrecognized arguments: --nonsense"),
        (["--zero", "4"], "--zero '4': give 2 or 3"),
    ):
        done = run("train-deepspeed.sbatch", "--image", "a", *weights, *words, settings=settings, path=slurm)
        assert (done.returncode, done.stdout) == (64, "") and says in done.stderr
    own = ["--image", "a", "--", "/workspace/mine.py", "--length", "1"]
    assert run("train-deepspeed.sbatch", *own, settings=settings, path=slurm).returncode == 0


def test_all_processes_export_or_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One that already sees the model of process 0 would leave the others in the collectives of the export."""
    packages = ["deepspeed", "train_options", "torch", "torch.distributed", "torch.utils.tensorboard", "transformers"]
    for name in [*packages, "torch.utils", "transformers.integrations"]:
        monkeypatch.setitem(sys.modules, name, MagicMock())
    monkeypatch.setenv("TRAINING_PROGRAMS", str(TRAINING))
    monkeypatch.syspath_prepend(str(CONTAINER))
    monkeypatch.delitem(sys.modules, "prepare_inputs", raising=False)
    program = load_module(CONTAINER / "train_distributed_deepspeed.py")
    monkeypatch.delitem(sys.modules, "prepare_inputs", raising=False)
    for of_process_0 in (False, True):
        process = MagicMock(rank=1)
        process.given.output = tmp_path
        process.of_all.return_value = [of_process_0, not of_process_0]
        gathered = process.engine.module.named_parameters
        assert program.Run.export(process) == tmp_path / "model"
        assert gathered.called is not of_process_0
        (tmp_path / "model").mkdir(exist_ok=True)

"""The Llama trainer on CPUs: model, data order, checkpoints, and what it refuses."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.jobs.conftest import ROOT, TRAINING

# It needs the laboratory's PyTorch, and root for a file system that is full.
pytestmark = pytest.mark.lab
HERE = Path(__file__).parent
SMALL = "--steps 6 --every 2 --batch 4 --length 16 --rate 1e-2 --report 1"


@pytest.fixture(scope="module")
def t(torch_folder: Path) -> Iterator[SimpleNamespace]:
    """The trainer's modules, in a process group of one."""
    before, environment = list(sys.path), dict(os.environ)
    sys.path += [str(TRAINING), str(torch_folder), str(HERE)]
    os.environ["OMP_NUM_THREADS"] = "1"
    names = (
        "llama",
        "record_reference",
        "samples",
        "saving",
        "token_shards",
        "train",
        "train_options",
        "weights",
        "torch",
    )
    modules = SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    modules.torch.set_num_threads(1)
    dist = modules.torch.distributed
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield modules
    # Each thread of gloo wakes up 100 times a second, and each run of the trainer makes more. No collective is under
    # way with which this could deadlock (train.py).
    dist.destroy_process_group()
    sys.path[:] = before
    os.environ.clear()
    os.environ.update(environment)


def options(t: SimpleNamespace, folder: Path, line: str, world: int = 1) -> tuple[argparse.Namespace, Any]:
    """Options and model as the program has them."""
    given = t.train_options.parser("").parse_args(f"--checkpoints {folder} {SMALL} {line}".split())
    config = t.train_options.check(given, world)
    given.precision, given.compile = "fp32", False
    return given, config


def trained(t: SimpleNamespace, folder: Path, line: str = "") -> tuple[Any, dict[int, float]]:
    """Train in this process. Returns the run and the losses."""
    metrics = folder.with_name(f"{folder.name}.jsonl")
    metrics.unlink(missing_ok=True)
    run = t.train.Run(*options(t, folder, f"--metrics {metrics} {line}"))
    if not run.resume():
        run.train()
    return run, losses(metrics)


def losses(metrics: Path) -> dict[int, float]:
    lines = map(json.loads, metrics.read_text().splitlines()) if metrics.exists() else ()
    return {line["step"]: line["loss"] for line in lines}


def test_the_model_is_that_of_transformers(t: SimpleNamespace) -> None:
    model = t.llama.Llama(t.llama.CONFIGURATIONS["debug"])
    t.record_reference.fill(model)
    wanted = json.loads((HERE / "reference.json").read_text())
    with t.torch.no_grad():
        found = t.record_reference.picked(model(t.record_reference.tokens()))
    assert wanted["versions"]["transformers"]
    assert np.abs(np.array(wanted["logits"])).max() > 1
    np.testing.assert_allclose(found, wanted["logits"], atol=2e-4)


@pytest.mark.parametrize(
    ("name", "count"), [("1b", 1_235_814_400), ("3b", 3_212_749_824), ("8b", 8_030_261_248), ("70b", 70_553_706_496)]
)
def test_sizes_are_those_of_meta(t: SimpleNamespace, name: str, count: int) -> None:
    """Parameters as in the model cards of Llama 3.1 and 3.2; our config.json is read back."""
    config = t.llama.CONFIGURATIONS[name]
    with t.torch.device("meta"):
        assert sum(weight.numel() for weight in t.llama.Llama(config).parameters()) == count
    assert t.llama.from_hugging_face(t.llama.to_hugging_face(config)) == config
    # By hand, for 8b: 6 x (parameters - input embedding) + 6 x 32 layers x 4096 x 8192.
    assert name != "8b" or config.flops_per_token(count, 8192) == 6 * 7_504_924_672 + 6_442_450_944


def test_the_loss_and_its_gradients_are_those_of_pytorch(t: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(t.llama, "LOSS_ROWS", 3)
    hidden, weight = (t.torch.randn(shape, requires_grad=True) for shape in ((7, 5), (11, 5)))
    targets = t.torch.arange(7)
    t.llama.HeadLoss.apply(hidden, weight, targets).mul(2).backward()
    found = [hidden.grad, weight.grad]
    hidden.grad = weight.grad = None
    loss = t.torch.nn.functional.cross_entropy(hidden @ weight.t(), targets)
    (2 * loss).backward()
    for ours, theirs in zip(found, (hidden.grad, weight.grad), strict=True):
        t.torch.testing.assert_close(ours, theirs)


def test_schedules(t: SimpleNamespace, tmp_path: Path) -> None:
    line = "--steps 110 --warm-up 10 --rate 1 --lowest 0.2 --schedule"
    expected = {
        "cosine": {0: 0.1, 9: 1.0, 10: 1.0, 60: 0.6, 110: 0.2},
        "wsd": {4: 0.5, 10: 1.0, 99: 1.0, 105: 0.6, 110: 0.2},
        "constant": {0: 0.1, 10: 1.0, 110: 1.0},
    }
    for name, values in expected.items():
        given, _ = options(t, tmp_path, f"{line} {name}")
        assert {step: round(t.train_options.learning_rate(given, step), 6) for step in values} == values


def test_each_window_comes_once_an_epoch_and_held_out_ones_never(t: SimpleNamespace, tmp_path: Path) -> None:
    for count in (1, 2, 3, 64, 1000):
        orders = [[t.samples.scattered(index, count, seed) for index in range(count)] for seed in (1, 2)]
        assert all(sorted(order) == list(range(count)) for order in orders)
        assert count < 64 or orders[0] != orders[1]
    tokenizer = t.token_shards.Tokenizer("bytes", "a" * 64, vocabulary=512, end_of_text=511)
    data = t.token_shards.write(tmp_path / "data", [list(range(500))] * 2, tokenizer, shard_tokens=300)
    found = t.samples.Windows(data, 10, 1, held=20)
    epochs = [[int(found.sample(80 * epoch + at)[0]) for at in range(80)] for epoch in (0, 1)]
    starts = [int(data.window(10 * at, 1)[0]) for at in range(100)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(starts[:80]) and epochs[0] != epochs[1]
    assert [int(found.held_out(at)[0]) for at in range(20)] == starts[80:]
    # A run that held out 20 and resumes with another evaluation keeps its order.
    other = t.samples.Windows(data, 10, 1, held=40)
    run = {"data": found.name, "checksum": found.checksum, "held": 20}
    assert t.samples.keep_order(other, run, 40, 3) == 18 and other.held == 20
    assert [int(other.sample(at)[0]) for at in range(80)] == epochs[0]
    for wrong, group, message in (
        ({"held": 2}, 4, "holds out 2 samples, too few"),
        ({"checksum": "b"}, 1, "has other shards"),
    ):
        with pytest.raises(t.samples.DataError, match=message):
            t.samples.keep_order(other, run | wrong, 40, group)
    (data.folder / "shard-00000.bin").write_bytes(b"\xff" * 600)
    with pytest.raises(t.samples.DataError, match=r"a shard is damaged; run token_shards.py verify"):
        [found.sample(at) for at in range(80)]


def text(t: SimpleNamespace, files: list[Path], batch: int = 4) -> Any:  # noqa: ANN401
    return t.samples.Text(files, lambda line: [*line.encode(), 0], 8, 1, batch=batch)


def test_text_is_the_same_for_any_number_of_processes_and_after_a_restart(t: SimpleNamespace, tmp_path: Path) -> None:
    plain, lines = tmp_path / "a.txt", tmp_path / "b.jsonl"
    plain.write_text("".join(f"document {number}\n" for number in range(20)) + "\n\nlast")
    lines.write_text("".join(json.dumps({"text": f"line {number}"}) + "\n" for number in range(9)))
    whole = text(t, [plain, lines])
    wanted = [whole.sample(number).tolist() for number in range(40)]
    assert len({tuple(sample) for sample in wanted}) > 30
    parts = [text(t, [plain, lines]) for _ in range(2)]
    first = {number: parts[number % 4 // 2].sample(number).tolist() for number in range(20)}
    # Two processes become one.
    alone = text(t, [plain, lines])
    alone.go_to({slot: place for part in parts for slot, place in part.position().items()})
    rest = {number: alone.sample(number).tolist() for number in range(20, 40)}
    assert [(first | rest)[number] for number in range(40)] == wanted


@pytest.fixture(scope="module")
def whole(t: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, float]]:
    """A whole run with accumulated gradients and evaluations: its checkpoints and losses."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    run, found = trained(t, folder, "--micro-batch 1 --eval-every 3")
    assert found[6] < found[1] and run.step == 6
    evaluations = [json.loads(line).get("evaluation_loss") for line in (folder.parent / "run.jsonl").open()]
    assert [value is not None for value in evaluations] == [False, False, True] * 2
    return folder, found


@pytest.mark.parametrize("replicas", [1, 2])
def test_two_processes_resume_what_one_began_with_equal_losses(
    t: SimpleNamespace, whole: tuple[Path, dict[int, float]], tmp_path: Path, replicas: int
) -> None:
    """Two shards, or two copies of the model, and another micro-batch; and back to one process, by RESUME_FROM."""
    folder, wanted = whole
    shutil.copytree(folder / "step-00000002", tmp_path / "run/step-00000002")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    base = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    base |= {"WORLD_SIZE": "2", "OMP_NUM_THREADS": "1", "LOG_DIR": str(tmp_path / "logs"), "SLURM_JOB_ID": "7"}
    line = [sys.executable, str(TRAINING / "train.py"), *SMALL.split(), "--checkpoints", str(tmp_path / "run")]
    line += ["--replicas", str(replicas)]
    started = [
        subprocess.Popen(line, env={**base, "RANK": rank}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for rank in "01"
    ]
    outputs = [process.communicate(timeout=300)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0], outputs
    assert "resumed from" in outputs[0] and "step-00000006 (final)" in outputs[0]
    found = losses(tmp_path / "logs/metrics.jsonl")
    assert found == pytest.approx({step: wanted[step] for step in (3, 4, 5, 6)}, abs=1e-5)
    os.environ["RESUME_FROM"] = str(tmp_path / "run/step-00000004")
    try:
        _, found = trained(t, tmp_path / "other")
    finally:
        del os.environ["RESUME_FROM"]
    assert found == pytest.approx({step: wanted[step] for step in (5, 6)}, abs=1e-5)


def test_a_pytorch_that_closes_its_stager_after_each_copy(
    t: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As torch 2.11.0 does at the end of DefaultStager._stage; 2.13 does not."""
    copy = t.saving.DefaultStager._stage

    def closing(self: Any, state: Any, **given: Any) -> Any:  # noqa: ANN401
        copied = copy(self, state, **given)
        self._state_dict_stager.close()
        return copied

    monkeypatch.setattr(t.saving.DefaultStager, "_stage", closing)
    trained(t, tmp_path / "run")
    assert [one.step for one in t.saving.checkpoint.complete(tmp_path / "run")] == [6, 4, 2]
    lines = list(map(json.loads, (tmp_path / "run.jsonl").read_text().splitlines()))
    assert lines[2]["checkpoint_seconds"] > 0


def test_a_stop_writes_a_checkpoint_that_is_not_final(
    t: SimpleNamespace, whole: tuple[Path, dict[int, float]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(t.train, "_stop", True)
    run, found = trained(t, tmp_path / "run")
    [written] = t.saving.checkpoint.complete(tmp_path / "run")
    assert (run.step, written.step, written.final) == (2, 2, False)
    monkeypatch.setattr(t.train, "_stop", False)
    run, rest = trained(t, tmp_path / "run")
    assert run.step == 6 and found | rest == pytest.approx(whole[1], abs=1e-5)


def test_a_damaged_checkpoint_is_skipped_and_a_foreign_one_refused(
    t: SimpleNamespace,
    whole: tuple[Path, dict[int, float]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole[0], folder)
    part = folder / "step-00000006/__0_0.distcp"
    content = bytearray(part.read_bytes())
    content[1000] ^= 1
    part.write_bytes(content)
    run = t.train.Run(*options(t, folder, ""))
    assert run.resume() is False and run.step == 4
    assert "step-00000006 is damaged (__0_0.distcp): skipped" in capsys.readouterr().out
    sizes = {**t.llama.to_hugging_face(t.llama.CONFIGURATIONS["debug"]), "intermediate_size": 256}
    (tmp_path / "config.json").write_text(json.dumps(sizes))
    before = sorted(folder.rglob("*"))
    with pytest.raises(t.saving.CheckpointError, match=r"another model: hidden 128 instead of 256. Give its --config"):
        trained(t, folder, f"--config {tmp_path}/config.json")
    assert sorted(folder.rglob("*")) == before
    monkeypatch.setenv("RESUME_FROM", str(tmp_path))
    with pytest.raises(t.saving.CheckpointError, match="is not a complete checkpoint: give one with a manifest"):
        trained(t, folder)


def test_what_must_not_be_written_is_not(
    t: SimpleNamespace, whole: tuple[Path, dict[int, float]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that diverges, --steps that a checkpoint contradicts, and a checkpoint with an unexpected file."""
    folder = tmp_path / "run"
    shutil.copytree(whole[0] / "step-00000002", folder / "step-00000002")
    with pytest.raises(t.train.DivergedError, match=r"of step 4 is (nan|inf): give a lower --rate"):
        trained(t, folder, "--rate 1e30 --every 3")
    assert [one.step for one in t.saving.checkpoint.complete(folder)] == [2]
    assert list(losses(tmp_path / "run.jsonl")) == [3]
    with pytest.raises(t.saving.CheckpointError, match=r"belongs to a run at step 2. Give 2 or more"):
        trained(t, folder, "--steps 1")
    with pytest.raises(t.saving.CheckpointError, match=r"ended a run at step 6. Give 6, or another --experiment"):
        trained(t, whole[0], "--steps 9")

    def refuse(*_: object, **__: object) -> None:
        raise ValueError("an unexpected file")

    monkeypatch.setattr(t.saving.checkpoint, "publish", refuse)
    with pytest.raises(t.saving.CheckpointError, match="step 3 was not written: an unexpected file"):
        trained(t, folder, "--steps 3")


def test_another_batch_keeps_the_samples_that_are_held_out(
    t: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = t.token_shards.Tokenizer("bytes", "a" * 64, vocabulary=512, end_of_text=511)
    t.token_shards.write(tmp_path / "data", [list(range(500))] * 4, tokenizer)
    line = f"--data {tmp_path}/data --eval-every 2"
    first, _ = trained(t, tmp_path / "run", f"{line} --steps 2")
    manifest = tmp_path / "run/step-00000002/manifest.json"
    manifest.write_text(manifest.read_text().replace('"final": true', '"final": false'))
    second, _ = trained(t, tmp_path / "run", f"{line} --batch 8 --steps 4")
    assert (first.samples.held, second.samples.held, second.options.eval_samples) == (16, 16, 16)
    assert second.first_sample == 8 + 16
    assert "WARNING: 16 samples are evaluated; the checkpoint's run holds out 16" in capsys.readouterr().out
    third = t.train.Run(*options(t, tmp_path / "run", f"--data {tmp_path}/data --steps 4"))
    assert third.resume() and third.samples.held == 16


def test_sizes_of_the_documented_commands(t: SimpleNamespace, tmp_path: Path) -> None:
    """On 8 GPUs a node; model1 has 11 nodes. 8B fits in 80 GB with one recomputed sample at a time."""
    lines = re.findall(r"(?m)^\./train-(.*) -- .*?(--config .*)$", (ROOT / "docs/training.md").read_text())
    assert len(lines) == 2
    for job, line in lines:
        nodes = 11 if "--model model1" in job else int(job.split("--nodes ")[1].split()[0])
        given, _ = options(t, tmp_path, line, 8 * nodes)
        assert (given.micro_batch, given.recompute) == (1, 1)


def test_a_full_disk_keeps_the_old_checkpoints(
    t: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One failure is a warning, because there may be room later; the second ends the run."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], check=True)
    try:
        with pytest.raises(t.saving.CheckpointError, match=r"older checkpoints are unchanged. Make room") as error:
            trained(t, folder / "run", "--steps 8")
        assert "checkpoint of step 6 was not written" in str(error.value)
        assert "WARNING: the checkpoint of step 4 was not written" in capsys.readouterr().out
        assert [path.name for path in (folder / "run").iterdir()] == ["step-00000002"]
        [kept] = t.saving.checkpoint.complete(folder / "run")
        assert not t.saving.checkpoint.damaged(kept)
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_weights_go_to_hugging_face_and_back(
    t: SimpleNamespace, whole: tuple[Path, dict[int, float]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(t.weights, "FILE_BYTES", 100_000)
    final, target = whole[0] / "step-00000006", tmp_path / "hf"
    assert t.weights.main([str(final), str(target), "--dtype", "float32"]) == 0
    assert len(list(target.glob("model-*-of-*.safetensors"))) > 2
    index = json.loads((target / "model.safetensors.index.json").read_text())
    assert set(index["weight_map"]) == set(dict(t.llama.Llama(t.llama.CONFIGURATIONS["debug"]).named_parameters()))
    run = t.train.Run(*options(t, tmp_path / "new", f"--weights {target} --config {target}"))
    resumed = t.train.Run(*options(t, whole[0], ""))
    resumed.resume()
    for ours, theirs in zip(run.model.parameters(), resumed.model.parameters(), strict=True):
        t.torch.testing.assert_close(ours.to_local(), theirs.to_local())
    assert t.weights.main([str(final), str(target)]) == 1, "nothing is overwritten"
    with pytest.raises(t.saving.CheckpointError, match=r"of another model: width 64 instead of 2048, .* Give --config"):
        t.weights.read_weights(run.model, target, t.llama.CONFIGURATIONS["1b"])
    next(target.glob("model-00002*")).unlink()
    with pytest.raises(t.saving.CheckpointError, match="cannot be read, or is not complete"):
        t.weights.read_weights(run.model, target, t.llama.CONFIGURATIONS["debug"])


@pytest.mark.parametrize(
    ("line", "world", "message"),
    [
        ("--batch 6", 4, "--batch 6 cannot be divided by 4 processes: give a multiple"),
        ("--batch 8 --micro-batch 3", 2, "2 processes x --micro-batch 3: give a multiple of 6"),
        ("--batch 12 --replicas 4", 6, "6 processes cannot be divided by --replicas 4"),
        ("--steps 0", 1, "--steps 0: give 1 or more"),
        ("--warm-up -1", 1, "--warm-up -1: give 0 or more"),
        ("--lowest 2", 1, "--lowest 2.0: give a share from 0 to 1"),
        ("--eval-samples 6", 1, "--eval-samples 6 is not a multiple of --batch 4"),
        ("--config 7b", 1, "--config 7b: .*No such file.* Give debug, 1b, 3b, 8b, 70b, or a Llama's config.json"),
        ("--config {odd}", 1, "4 heads are not a multiple of 3 key and value heads"),
        ("--config {other}", 1, "model_type 'qwen2': this trainer has Llama only"),
    ],
)
def test_sizes_that_do_not_fit(t: SimpleNamespace, tmp_path: Path, line: str, world: int, message: str) -> None:
    sizes = t.llama.to_hugging_face(t.llama.CONFIGURATIONS["debug"])
    (tmp_path / "odd.json").write_text(json.dumps({**sizes, "num_key_value_heads": 3}))
    (tmp_path / "other.json").write_text(json.dumps({**sizes, "model_type": "qwen2"}))
    line = line.format(odd=tmp_path / "odd.json", other=tmp_path / "other.json")
    with pytest.raises(SystemExit, match=message):
        options(t, tmp_path, line, world)


def test_data_that_does_not_fit(t: SimpleNamespace, tmp_path: Path) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    def tokenizer(name: str, size: int, end: str = "</s>") -> Path:
        words = {end: 0} | {f"word{number}": number for number in range(1, size)}
        Tokenizer(WordLevel(words, unk_token=end)).save(str(tmp_path / name))
        return tmp_path / name

    small, large, endless = tokenizer("a.json", 9), tokenizer("b.json", 600), tokenizer("c.json", 9, "word0")
    shards = t.token_shards.Tokenizer("large", "a" * 64, vocabulary=600, end_of_text=0)
    t.token_shards.write(tmp_path / "large", [[1] * 500], shards)
    fitting = t.token_shards.Tokenizer("small", "a" * 64, vocabulary=9, end_of_text=0)
    t.token_shards.write(tmp_path / "short", [[1] * 50], fitting)
    (tmp_path / "bad.jsonl").write_text('{"text": "word1"}\n{"txt": 1}\n')
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "blank.txt").write_text("\n \n")
    expected = {
        f"{tmp_path}/none": "no folder of this name",
        f"{tmp_path}/large": "token ids of large go up to 599, the model has 512",
        f"{tmp_path}/short": "50 tokens|51 tokens, which are 3 samples of --length 16",
        f"{tmp_path}/short --tokenizer {small}": "give the same tokenizer, or prepare the data",
        f"{tmp_path}/bad.jsonl": "give its --tokenizer",
        f"{tmp_path}/bad.csv --tokenizer {small}": "give a folder of token shards, or existing files",
        f"{tmp_path}/bad.jsonl --tokenizer {large}": "has 600 tokens, the model 512",
        f"{tmp_path}/bad.jsonl --tokenizer {endless}": "has no end-of-text token",
        f"{tmp_path}/bad.jsonl --tokenizer {tmp_path}/bad.jsonl": "cannot be read as a tokenizer",
        f"{tmp_path}/empty.txt --tokenizer {small}": "the files are empty",
        f"{tmp_path}/blank.txt --tokenizer {small}": "no line has text",
    }
    expected |= {
        f"{tmp_path}/bad.jsonl --tokenizer {small} --length 1": "bad.jsonl, line 2: expected UTF-8 and, in .jso"
    }
    expected |= {
        f"{tmp_path}/bad.jsonl --tokenizer {small} --eval-every 2": "has no samples for evaluation: give --eval-"
    }
    for line, message in expected.items():
        held = " --eval-every 1" if "short" in line else ""
        with pytest.raises(t.samples.DataError) as error:
            trained(t, tmp_path / "run", f"--data {line}{held}")
        assert re.search(message, str(error.value)), str(error.value)
    with pytest.raises(SystemExit, match="--float8 needs a GPU of the Hopper generation or later"):
        trained(t, tmp_path / "run", "--float8")

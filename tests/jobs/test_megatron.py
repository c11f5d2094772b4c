"""Megatron-LM: recipes against its own parser and estimates, data sets, and conversion."""

from __future__ import annotations

import json
import math
import os
import random
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from local.slurm import make
from settings import load
from tests.jobs.conftest import JOBS, ROOT, TRAINING, load_module
from tests.jobs.test_documented_jobs import commands
from tests.stubs import fake_command

FACTS: dict[str, Any] = json.loads((Path(__file__).parent / "megatron" / "facts.json").read_text())
RECIPES = sorted(path.stem for path in (TRAINING / "megatron").glob("*.json"))
recipe = load_module(JOBS / "lib" / "megatron_recipe.py")
data = load_module(JOBS / "lib" / "megatron_data.py")


def run(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    status = recipe.main(words)
    out = capsys.readouterr()
    return status, out.out, out.err


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_has_options_of_the_genuine_parser_and_fits_its_nodes(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for option, value in recipe.load(name)["arguments"].items():
        known = FACTS["options"][f"--{option}"]
        assert known["flag"] == isinstance(value, bool), option
        assert known["choices"] is None or str(value) in known["choices"], option
    status, out, err = run([name, "--gpus", "8", "--gpu-memory", "80"], capsys)
    assert status == 0 and "a GPU needs about" in err
    assert out.splitlines()[:2] == ["--num-layers", str(recipe.load(name)["arguments"]["num-layers"])]


def test_the_job_file_has_options_of_the_genuine_parser() -> None:
    text = (JOBS / "train-megatron.sbatch").read_text()
    given = text[text.index("ARGUMENTS+=") : text.index('  log::info "passed')].replace("(", " ").split()
    options = {word for word in given if word.startswith("--")}
    assert {"--save", "--load", "--exit-signal", "--pretrained-checkpoint", "--ckpt-format"} <= options
    assert options <= set(FACTS["options"])
    choices = {name: FACTS["options"][name]["choices"] for name in ("--ckpt-format", "--dist-ckpt-strictness")}
    assert "torch_dist" in choices["--ckpt-format"] and "log_all" in choices["--dist-ckpt-strictness"]


@pytest.mark.parametrize("name", RECIPES)
def test_memory_is_that_of_megatron_lm(name: str) -> None:
    """Context parallelism, which its formulas leave out, divides the activations and the optimizer."""
    found, known = recipe.load(name), FACTS["memory"][name]
    one = recipe.Recipe(found["arguments"], found["vocabulary"])
    context, data = one.context, known["data_parallel"]
    assert one.activation_bytes(known["microbatches"]) * context == pytest.approx(known["activations"])
    sharded = one.state_bytes(data)
    one.context = 1
    assert one.state_bytes(data) == pytest.approx(known["state"])
    assert sharded == pytest.approx(one.state_bytes(data * context))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["llama-9b"], "no recipe"),
        (["/nowhere/x.json"], "recipes: gpt-1.3b gpt-debug llama-70b"),
        (["llama-8b", "--nodes", "3"], "does not divide global-batch-size 128"),
        (["llama-8b", "--", "--tensor-model-parallel-size", "3"], "tensor 3 does not divide the 8 GPUs of a node"),
        (["llama-8b", "--", "--tensor-model-parallel-size", "16"], "tensor 16 does not divide the 8 GPUs of a node"),
        (["llama-8b", "--", "--num-query-groups", "5"], "num-query-groups 5 does not divide num-attention-heads 32"),
        (["llama-8b", "--", "--pipeline-model-parallel-size=3"], "pipeline 3 does not divide num-layers 32"),
        (["llama-8b", "--", "--context-parallel-size", "3"], "2 x context 3 does not divide seq-length 8192"),
        (["llama-8b", "--", "--global-batch-size", "100"], "does not divide global-batch-size 100"),
        (["llama-8b", "--", "--seq-length", "16384"], "is more than max-position-embeddings 8192"),
        (["llama-8b", "--", "--hidden-size", "4100"], "num-attention-heads 32 does not divide hidden-size 4100"),
        (["llama-8b", "--", "--micro-batch-size", "many"], "--micro-batch-size 'many': give a whole number from 1"),
        (["llama-8b", "--", "word"], "'word' is not an argument"),
        (["llama-8b", "--nodes", "1", "--gpus", "1", "--", "--tensor-model-parallel-size", "1"], "does not fit"),
        (["llama-70b", "--nodes", "8", "--gpu-memory", "40"], "38.1 GiB of weights"),
        (["llama-70b", "--nodes", "2", "--", "--global-batch-size", "9"], "tensor 4 x pipeline 4 x context 2 = 32"),
        (["llama-70b", "--", "--num-layers-per-virtual-pipeline-stage", "3"], "3 does not divide 20 layers a stage"),
        (["llama-70b", "--", "--global-batch-size", "8"], "with virtual stages does not divide 2 microbatches"),
        (["llama-70b", "--", "--pipeline-model-parallel-size", "1"], "needs pipeline 2 or more"),
        (["llama-8b", "--data", "/nowhere"], "no /nowhere/manifest.json"),
        (["llama-8b", "--start-from", "/nowhere"], "is not a folder that megatron-convert.sbatch wrote"),
    ],
)
def test_what_does_not_divide_or_fit_is_refused(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    own, rest = (words[: words.index("--")], words[words.index("--") :]) if "--" in words else (words, [])
    gpus = [] if "--gpus" in own else ["--gpus", "8"]
    memory = [] if "--gpu-memory" in own else ["--gpu-memory", "80"]
    status, out, err = run([*own, *gpus, *memory, *rest], capsys)
    assert (status, out) == (1, "")
    assert says in err


def test_full_recomputation_fits_where_the_recipe_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["llama-8b", "--gpus", "8", "--gpu-memory", "40", "--"]
    assert "does not fit" in run(words, capsys)[2]
    advice = ["--recompute-granularity", "full", "--recompute-method", "uniform", "--recompute-num-layers", "1"]
    assert set(advice) & set(FACTS["options"]) == {one for one in advice if one.startswith("--")}
    assert run([*words, *advice], capsys)[0] == 0


def test_a_start_from_the_same_model_is_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The values of convert.py for Llama 2 7B, whose recipe leaves some to Megatron-LM's defaults."""
    model: dict[str, float] = {
        "num-layers": 32,
        "hidden-size": 4096,
        "ffn-hidden-size": 11008,
        "num-attention-heads": 32,
    }
    model |= {"num-query-groups": 32, "kv-channels": 128, "rotary-base": 10000, "norm-epsilon": 1e-5}
    model |= {"untie-embeddings-and-output-weights": True, "add-qkv-bias": False, "vocabulary": 32000}
    (tmp_path / "model.json").write_text(json.dumps(model))
    words = ["llama-7b", "--gpus", "8", "--gpu-memory", "80", "--start-from", str(tmp_path)]
    assert run(words, capsys)[0] == 0
    (tmp_path / "model.json").write_text(json.dumps({**model, "num-query-groups": 8, "add-qkv-bias": True}))
    assert "num-query-groups is 8 there and 32 here, add-qkv-bias is True there" in run(words, capsys)[2]
    assert "could not convert string to float" in run([*words, "--", "--rotary-base", "x"], capsys)[2]


def write_set(folder: Path, lengths: list[int]) -> Path:
    """A data set as preprocess_data.py of core_v0.16.1 writes it: a sequence a document, uint16."""
    folder.mkdir(parents=True)
    stem = folder / "data_text_document"
    count = len(lengths)
    pointers = [2 * sum(lengths[:number]) for number in range(count)]
    head = struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, 8, count, count + 1)
    body = struct.pack(f"<{count}i{count}q{count + 1}q", *lengths, *pointers, *range(count + 1))
    stem.with_suffix(".idx").write_bytes(head + body)
    stem.with_suffix(".bin").write_bytes(bytes(2 * sum(lengths)))
    return folder


def finish(folder: Path, source: Path, tokenizer: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    words = ["finish", str(folder), "--prefix", "data_text_document", "--input", str(source)]
    status = data.main([*words, "--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", str(tokenizer)])
    return status, capsys.readouterr().err


def test_a_data_set_is_complete_or_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text('{"text": "a"}\n{"text": "b"}\n{"text": "c"}\n')
    tokenizer = tmp_path / "tokenizer"
    tokenizer.mkdir()
    words = {"model": {"vocab": {str(number): number for number in range(1000)}}, "added_tokens": [{"id": 1000}]}
    (tokenizer / "tokenizer.json").write_text(json.dumps(words))
    folder = write_set(tmp_path / "set", [5, 7, 9])
    assert finish(folder, source, tokenizer, capsys) == (0, "3 documents, 21 tokens\n")
    status, out, err = run(["llama-debug", "--gpus", "8", "--data", str(folder)], capsys)
    assert status == 0 and str(folder / "data_text_document") in out.splitlines()
    assert "0.02 billion parameters" in err, "the vocabulary is the data set's"
    assert data.main(["verify", str(folder)]) == 0
    # A process of preprocess_data.py failed, and its status was 0.
    status, err = finish(write_set(tmp_path / "short", [5, 7]), source, tokenizer, capsys)
    assert status == 1 and "the data set has 2 documents" in err
    binary = folder / "data_text_document.bin"
    binary.write_bytes(b"\1" + bytes(41))
    assert data.main(["verify", str(folder)]) == 1
    assert "is damaged: data_text_document.bin" in capsys.readouterr().err
    binary.write_bytes(bytes(40))
    assert "has 40 bytes, its manifest says 42" in run(["llama-debug", "--gpus", "8", "--data", str(folder)], capsys)[2]
    assert finish(folder, source, tokenizer, capsys)[1].endswith(
        "data_text_document.bin has 40 bytes, its index says 42\n"
    )
    (folder / "data_text_document.idx").write_bytes(b"MMIDIDX")
    assert "cut short" in finish(folder, source, tokenizer, capsys)[1]


@pytest.mark.parametrize(
    ("line", "says"),
    [("", "is empty"), ("\n", "line 1"), ('{"body": "x"}\n', "another --key"), ('{"text": 3}\n', "is not a text")],
)
def test_input_that_is_not_one_text_a_line_is_refused(
    line: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.jsonl").write_text(line)
    assert data.main(["check", str(tmp_path / "in.jsonl")]) == 1
    assert says in capsys.readouterr().err


@pytest.fixture
def cluster(tmp_path: Path) -> dict[str, str]:
    """Jakarta's settings with folders below tmp_path, an sbatch that prints, and an srun that runs its command here."""
    return fake_cluster(tmp_path, "jakarta-80xp5e")


def fake_cluster(tmp_path: Path, environment: str) -> dict[str, str]:
    settings = json.dumps(make(load(ROOT / "environments" / f"{environment}.yaml"), nodes=1).settings())
    (tmp_path / "settings.json").write_text(settings.replace('"/fsx', f'"{tmp_path}/fsx'))
    for name, text in (
        ("sbatch", 'printf "%s\\n" "$@"'),
        ("sinfo", "true"),
        ("srun", 'while [[ "$1" == --* ]]; do shift; done; exec "$@"'),
        ("scontrol", "true"),
    ):
        fake_command(tmp_path / "bin" / name, text)
    env = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "TRAINYARD_SETTINGS": str(tmp_path / "settings.json")}
    return {**env, "HOME": str(tmp_path), "TRAINYARD_JOBS": str(JOBS)}


def call(file: str, words: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([JOBS / file, *words], capture_output=True, text=True, check=False, env=env)


def test_the_commands_of_the_page_are_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the environment and the files that the page assumes, and a file system of 1 PiB. The files are not in the
    settings' folders: a job that creates one of them refuses what exists."""
    env, files = fake_cluster(tmp_path, "megatron-2xp5"), tmp_path / "files"
    model = files / "models" / "Meta-Llama-3-8B"
    for folder in (model, files / "checkpoints" / "first", files / "checkpoints" / "converted" / "llama-3-8b"):
        folder.mkdir(parents=True)
    (files / "logs" / "megatron").mkdir(parents=True)
    settings = Path(env["TRAINYARD_SETTINGS"])
    settings.write_text(settings.read_text().replace(f"{tmp_path}/fsx/logs", f"{files}/logs"))
    (model / "config.json").write_text("{}")
    (model / "tokenizer.json").write_text('{"model": {"vocab": {"a": 128255}}, "added_tokens": [{"id": 128255}]}')
    (files / "checkpoints" / "first" / "latest_checkpointed_iteration.txt").write_text("500")
    sizes = recipe.load("llama-8b")["arguments"]
    names = ("num-layers", "hidden-size", "ffn-hidden-size", "num-query-groups", "rotary-base")
    same = json.dumps({name: sizes[name] for name in names})
    (files / "checkpoints" / "converted" / "llama-3-8b" / "model.json").write_text(same)
    (files / "data").mkdir()
    (files / "data" / "text.jsonl").write_text('{"text": "a"}\n')
    assert finish(write_set(files / "data/megatron/text", [5]), files / "data/text.jsonl", model, capsys)[0] == 0
    petabyte = "import shutil\nshutil.disk_usage = lambda _: shutil._ntuple_diskusage(1 << 50, 0, 1 << 50)\n"
    (tmp_path / "sitecustomize.py").write_text(petabyte)
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "current").symlink_to(JOBS.parent)
    lines = [line.replace("/fsx/", f"{files}/") for line in commands("docs/megatron.md")]
    recipes = [line for line in lines if "megatron_recipe.py" in line]
    assert len(recipes) == 1 and sum(".sbatch" in line for line in lines) == 7, lines
    for at, line in enumerate(lines):
        if line in recipes:  # a failure within <( ) has no status
            words = line.replace("--data", '--settings "$TRAINYARD_SETTINGS" --data')
            lines[at] = f"{words}\n((${{#arguments[@]}} > 50))"
    done = subprocess.run(
        ["bash", "-euxc", "\n".join(lines)], capture_output=True, text=True, check=False,
        env={**env, "SCRIPTS_DIR": str(tmp_path / "scripts"), "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("--partition=p5") + done.stdout.count("--partition=cpu") >= 4, done.stdout


def test_checkpoints_that_do_not_fit_or_divide_are_refused(
    cluster: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--recipe", "llama-debug", "--every", "300", "--retain", "1000", "--", "--mock-data"]
    done = call("train-megatron.sbatch", words, cluster)
    assert done.returncode == 64 and "--retain 1000 is not a multiple of --every 300" in done.stderr
    words = ["llama-8b", "--gpus", "8", "--checkpoints", str(tmp_path / "a" / "first")]
    monkeypatch.setattr(recipe.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 150 * 2**30}))
    assert "first has 150 GiB free, 2 more checkpoint(s) need 209 GiB" in run(words, capsys)[2]
    (tmp_path / "a" / "first").mkdir(parents=True)
    (tmp_path / "a" / "first" / "latest_checkpointed_iteration.txt").write_text("500")
    assert run(words, capsys)[0] == 0, "one of two exists"
    assert run([*words[:4], str(tmp_path / "not/mounted/here/first")], capsys)[0] == 0


def in_job(file: str, words: list[str], env: dict[str, str], tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Run a job file as Slurm does, from a copy."""
    shutil.copy(JOBS / file, tmp_path / "slurm_script")
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "1", "SLURMD_NODENAME": "a", "SLURM_CPUS_ON_NODE": "2"}
    job |= {"SLURM_JOB_PARTITION": "gpu-queue", "PYTHON": sys.executable}
    command = ["bash", str(tmp_path / "slurm_script"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**env, **job})


def test_a_recipe_brings_its_nodes_and_is_refused_before_submission(cluster: dict[str, str]) -> None:
    words = ["--recipe", "llama-70b", "--", "--mock-data"]
    done = call("train-megatron.sbatch", words, cluster)
    assert done.returncode == 0, done.stderr
    assert "--nodes=16" in done.stdout.splitlines()
    assert (
        "16 nodes x 8 GPUs: tensor 4 x pipeline 4 x context 2 x data 4" in done.stderr and "of 141 GiB" in done.stderr
    )
    for more, says in (
        (["--tensor", "3", *words], "tensor 3 does not divide the 8 GPUs of a node"),
        (["--nodes", "3", *words], "context 2 = 32 does not divide 3 nodes x 8 GPUs = 24"),
        (["--gpu-memory", "40", *words], "does not fit"),
        (["--", "--mock-data"], "one of: gpt-1.3b gpt-debug llama-70b"),
        (["--recipe", "llama-8b"], "--data FOLDER, written by megatron-prepare.sbatch"),
    ):
        done = call("train-megatron.sbatch", more, cluster)
        assert (done.returncode, done.stdout) == (64, ""), done.stderr
        assert says in done.stderr


# Stands in for Megatron-LM core_v0.16.1, tools/preprocess_data.py; its output is that of write_set.
PREPROCESS = """
import struct, sys
at = {word: value for word, value in zip(sys.argv, sys.argv[1:]) if word.startswith("--")}
assert "--append-eod" in sys.argv and at["--tokenizer-type"] == "HuggingFaceTokenizer", "simulated: other arguments"
count = sum(1 for line in open(at["--input"])) - MISSING
stem = f"{at['--output-prefix']}_{at['--json-keys']}_document"
head = struct.pack("<9sQBQQ", b"MMIDIDX\\0\\0", 1, 8, count, count + 1)
tail = struct.pack(f"<{count}i{count}q{count + 1}q", *[4] * count, *range(0, 8 * count, 8), *range(count + 1))
open(stem + ".idx", "wb").write(head + tail)
open(stem + ".bin", "wb").write(bytes(8 * count))
print(f"simulated: {count} documents")
"""


def test_preparing_publishes_a_complete_data_set_and_keeps_one_that_exists(
    cluster: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n' * 3)
    (tmp_path / "tokenizer").mkdir()
    program = tmp_path / "megatron" / "tools" / "preprocess_data.py"
    program.parent.mkdir(parents=True)
    program.write_text(PREPROCESS.replace("MISSING", "1"))
    words = ["--input", str(tmp_path / "in.jsonl"), "--tokenizer", str(tmp_path / "tokenizer"), "--name", "small"]
    words += ["--megatron", str(tmp_path / "megatron")]
    folder = Path(json.loads(Path(cluster["TRAINYARD_SETTINGS"]).read_text())["folders"]["data"]) / "megatron"
    done = in_job("megatron-prepare.sbatch", words, cluster, tmp_path)
    assert done.returncode == 1 and "the data set has 2 documents" in done.stderr
    assert list(folder.iterdir()) == [], "nothing was published or left"
    program.write_text(PREPROCESS.replace("MISSING", "0"))
    done = in_job("megatron-prepare.sbatch", words, cluster, tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"--data {folder}/small" in done.stderr
    assert [path.name for path in folder.iterdir()] == ["small"]
    done = call("megatron-prepare.sbatch", words, cluster)
    assert (done.returncode, done.stdout) == (64, "") and f"{folder}/small exists and is kept" in done.stderr
    for option, value, says in (("--name", "../x", "--name '../x'"), ("--input", "/nowhere", "--input '/nowhere'")):
        done = call("megatron-prepare.sbatch", [*words, "--name", "other", option, value], cluster)
        assert done.returncode == 64 and says in done.stderr
    done = call("megatron-prepare.sbatch", [*words, "--name", "other"], cluster)
    assert done.returncode == 0, done.stderr
    assert "--partition=cpu" in done.stdout.splitlines(), "the environment's queue without GPUs"


# What a checkpoint of the training has besides weights.
ADD_ARGS = """
import argparse, json, pathlib, sys, torch
import torch.distributed.checkpoint as dcp
there = pathlib.Path(sys.argv[1])
common = torch.load(there / "common.pt", weights_only=False)
common["args"] = argparse.Namespace(**json.loads(sys.argv[2]))
torch.save(common, there / "common.pt")
found = dcp.FileSystemReader(str(there)).read_metadata().state_dict_metadata
print(json.dumps({name: list(one.size) for name, one in found.items()}))
"""
# Of a checkpoint that megatron-core 0.16.1 wrote for this model (3 layers, hidden 32, 4 heads in 2 groups).
STORED = {
    "embedding.word_embeddings.weight": [64, 32],
    "decoder.layers.self_attention.linear_qkv.layer_norm_weight": [3, 32],
    "decoder.layers.self_attention.linear_proj.weight": [3, 32, 32],
    "decoder.layers.self_attention.linear_qkv.weight": [3, 64, 32],
    "decoder.layers.mlp.linear_fc1.layer_norm_weight": [3, 32],
    "decoder.layers.mlp.linear_fc1.weight": [3, 96, 32],
    "decoder.layers.mlp.linear_fc2.weight": [3, 32, 48],
    "decoder.final_layernorm.weight": [32],
    "output_layer.weight": [64, 32],
}
CONFIG = {
    **{"model_type": "llama", "hidden_act": "silu", "hidden_size": 32, "intermediate_size": 48, "head_dim": 8},
    **{"num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5},
    **{"vocab_size": 64, "rope_theta": 500000.0, "tie_word_embeddings": False},
}
ARGS = {
    **{"normalization": "RMSNorm", "swiglu": True, "add_bias_linear": False, "position_embedding_type": "rope"},
    **{"hidden_size": 32, "ffn_hidden_size": 48, "num_layers": 3, "num_attention_heads": 4, "num_query_groups": 2},
    **{"group_query_attention": True, "kv_channels": 8, "max_position_embeddings": 128, "layernorm_epsilon": 1e-5},
    **{"rotary_base": 500000, "untie_embeddings_and_output_weights": True, "tokenizer_model": None},
}


def random_llama() -> dict[str, tuple[list[int], bytes]]:
    """Shapes and bf16 bytes of a Llama of Hugging Face, by name."""
    sizes = {"model.embed_tokens": [64, 32], "lm_head": [64, 32], "model.norm": [32]}
    layer = {"self_attn.q_proj": [32, 32], "self_attn.k_proj": [16, 32], "self_attn.v_proj": [16, 32]}
    layer |= {
        "self_attn.o_proj": [32, 32],
        "mlp.gate_proj": [48, 32],
        "mlp.up_proj": [48, 32],
        "mlp.down_proj": [32, 48],
    }
    layer |= {"input_layernorm": [32], "post_attention_layernorm": [32]}
    sizes |= {f"model.layers.{number}.{name}": size for number in range(3) for name, size in layer.items()}
    draw = random.Random(1)  # noqa: S311 -- test data
    # Without NaN, which is not equal to itself: the exponent is never all ones.
    word = struct.Struct("<H")
    return {
        f"{name}.weight": (size, b"".join(word.pack(draw.randrange(0x7F00)) for _ in range(math.prod(size))))
        for name, size in sizes.items()
    }


def write_safetensors(path: Path, tensors: dict[str, tuple[list[int], bytes]]) -> None:
    header, at = {}, 0
    for name, (size, content) in tensors.items():
        header[name] = {"dtype": "BF16", "shape": size, "data_offsets": [at, at + len(content)]}
        at += len(content)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(content for _, content in tensors.values()))


def read_safetensors(path: Path) -> dict[str, tuple[list[int], bytes]]:
    content = path.read_bytes()
    (size,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + size])
    header.pop("__metadata__", None)
    body = content[8 + size :]
    return {name: (one["shape"], body[slice(*one["data_offsets"])]) for name, one in header.items()}


def test_conversion_there_and_back_keeps_every_weight(
    cluster: dict[str, str], tmp_path: Path, torch_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "hf"
    source.mkdir()
    weights = random_llama()
    write_safetensors(source / "model.safetensors", weights)
    (source / "config.json").write_text(json.dumps(CONFIG))
    env = {**cluster, "PYTHONPATH": str(torch_folder), "OMP_NUM_THREADS": "1"}
    folders = json.loads(Path(cluster["TRAINYARD_SETTINGS"]).read_text())["folders"]
    there, back = Path(folders["checkpoints"]) / "converted/small", Path(folders["results"]) / "converted/small"
    words = ["--to", "megatron", "--source", str(source), "--name", "small"]
    done = in_job("megatron-convert.sbatch", words, env, tmp_path)
    assert done.returncode == 0, done.stderr
    add = [sys.executable, "-W", "ignore", "-c", ADD_ARGS, str(there / "release"), json.dumps(ARGS)]
    found = subprocess.run(add, check=True, env=env, capture_output=True, text=True)
    assert json.loads(found.stdout) == STORED
    program = (TRAINING / "megatron" / "convert.py").read_text()
    assert set(re.findall(r"args\.(\w+)", program)) | set(ARGS) <= set(FACTS["attributes"].split())
    # Another model's weights are refused before submission.
    status, _, err = run(["llama-debug", "--gpus", "8", "--start-from", str(there)], capsys)
    assert status == 1 and "checkpoint of another model: num-layers is 3 there and 6 here" in err
    (tmp_path / "tokenizer").mkdir()
    vocabulary = {"model": {"vocab": {str(number): number for number in range(64)}}}
    (tmp_path / "tokenizer" / "tokenizer.json").write_text(json.dumps(vocabulary))
    words = ["--to", "hf", "--source", str(there), "--name", "small", "--tokenizer", str(tmp_path / "tokenizer")]
    done = in_job("megatron-convert.sbatch", words, env, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    converted: dict[str, tuple[list[int], bytes]] = {}
    for path in back.glob("*.safetensors"):
        converted |= read_safetensors(path)
    assert converted == weights
    index = json.loads((back / "model.safetensors.index.json").read_text())["weight_map"]
    assert all(name in read_safetensors(back / index[name]) for name in weights)
    config = json.loads((back / "config.json").read_text())
    assert config == {**config, **CONFIG, "max_position_embeddings": 128}
    done = call("megatron-convert.sbatch", words, cluster)
    assert done.returncode == 64 and f"{back} exists and is kept" in done.stderr
    done = call("megatron-convert.sbatch", [*words[2:6], "--to", "megatron", "--name", "x"], cluster)
    assert done.returncode == 64 and "has no config.json" in done.stderr


# The position scaling of Meta-Llama-3.1-8B's config.json.
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA3["original_max_position_embeddings"] = 8192


def test_position_scaling_is_converted_or_refused(
    tmp_path: Path, torch_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hf").mkdir()
    write_safetensors(tmp_path / "hf" / "model.safetensors", random_llama())
    cases: list[dict[str, Any]] = [{"rope_scaling": {"type": "linear", "factor": 2.0}}]
    cases += [{"rope_scaling": {**LLAMA3, "factor": 32.0}}, {"rope_scaling": LLAMA3}, {"rope_scaling": None}]
    cases += [{"rope_parameters": {"rope_theta": 500000.0, **LLAMA3}}]
    cases += [{"rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}}]
    # One process: importing torch is slow.
    program = "import json, pathlib, runpy, sys; main = runpy.run_path(sys.argv[1])['main']\n"
    program += "for n, one in enumerate(json.loads(sys.argv[3])):\n"
    program += " pathlib.Path(sys.argv[2], 'hf/config.json').write_text(json.dumps(one))\n"
    program += " main(['from-hf', sys.argv[2] + '/hf', f'{sys.argv[2]}/{n}'])"
    words = [str(TRAINING / "megatron" / "convert.py"), str(tmp_path), json.dumps([{**CONFIG, **one} for one in cases])]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *words],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(torch_folder)},
    )  # fmt: skip
    assert "type linear: Megatron-LM has only" in done.stderr and "llama3 with factor=32.0" in done.stderr
    assert not (tmp_path / "0").exists() and not (tmp_path / "1").exists()
    models = [json.loads((tmp_path / str(number) / "model.json").read_text()) for number in range(2, 6)]
    assert [one["use-rope-scaling"] for one in models] == [True, False, True, False]
    assert {one["rotary-base"] for one in models} == {500000}
    # A recipe without it would train with other positions.
    recipe_words = ["llama-debug", "--gpus", "8", "--start-from", str(tmp_path / "2"), "--"]
    refusal = "use-rope-scaling is True there and False here"
    assert refusal in run(recipe_words, capsys)[2]
    assert refusal not in run([*recipe_words, "--use-rope-scaling"], capsys)[2]


# Stands in for megatron/training/training.py of Megatron-LM core_v0.16.1: what its training loop calls. "simulated"
TRAINING_LOOP = """
import types
class Loss(float):
    def reshape(self, _): return [self]
torch = types.SimpleNamespace(cuda=types.SimpleNamespace(max_memory_allocated=lambda: 2**30))
def get_args(): return types.SimpleNamespace(log_interval=2, global_batch_size=4, seq_length=8)
def training_log(losses, total, rate, iteration, scale, *more, is_first_iteration=False): print("simulated", iteration)
def reported():
    import os, pathlib, time
    mark, limit = pathlib.Path(os.environ["PROGRESS_DIR"], "0"), time.monotonic() + 120
    mark.unlink()
    while not mark.exists(): assert time.monotonic() < limit; time.sleep(0.05)
    print(mark.read_text().strip(), end=" ")
def save_checkpoint(*_): reported()
def evaluate_and_print_results(*_): reported()
def train():
    training_log({"lm loss": Loss(8)}, {}, 0.1, 1, 1.0, is_first_iteration=True)
    save_checkpoint(1)
    evaluate_and_print_results("p")
    for step in range(2, 7): training_log({"lm loss": Loss(9 - step)}, {}, 0.1, step, 1.0)
"""
PRETRAIN = """
import os, signal, sys
from megatron.training import training
os.kill(os.getpid(), signal.SIGUSR1)
assert sys.argv[1:] == ["--num-layers", "2"] and __name__ == "__main__"
training.train()
"""


def test_pretraining_reports_its_steps_and_outlives_a_signal(tmp_path: Path) -> None:
    package = tmp_path / "megatron" / "training"
    package.mkdir(parents=True)
    (package / "training.py").write_text(TRAINING_LOOP)
    (tmp_path / "pretrain_gpt.py").write_text(PRETRAIN)
    env = {"PATH": os.environ["PATH"], "LOG_DIR": str(tmp_path), "PROGRESS_DIR": str(tmp_path)}
    program = str(TRAINING / "megatron" / "pretrain.py")
    line = [sys.executable, program, str(tmp_path / "pretrain_gpt.py"), "--num-layers", "2"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    said = done.stdout.split()
    assert said == ["simulated", "1", "1", "1", "simulated", "2", *said[6:]], "step 1 also in both pauses"
    lines = [json.loads(one) for one in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(one["step"], one["loss"], one["memory_gib"]) for one in lines] == [
        (2, 7.0, 1.0),
        (4, 5.0, 1.0),
        (6, 3.0, 1.0),
    ]
    assert lines[0]["seconds"] is None and lines[1]["tokens_per_second"] > 0
    assert 1 <= int((tmp_path / "0").read_text()) <= 6, "at most once a second"
    done = subprocess.run(line[:2], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 1 and "give the path" in done.stderr

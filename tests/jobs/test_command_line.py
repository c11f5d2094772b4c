"""Help and argument errors of every job, without Slurm."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from local.slurm import make
from settings import load
from tests.jobs.conftest import JOBS, ROOT, SHARING
from tests.stubs import fake_command

FILES = sorted(path.name for path in JOBS.glob("*.sbatch"))


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(make(load(ROOT / "environments" / "jakarta-80xp5e.yaml"), nodes=1).settings()))
    return path


def run(file: str, *words: str, settings: Path, path: str = "") -> subprocess.CompletedProcess[str]:
    env = {"PATH": f"{path}:{os.environ['PATH']}", "HOME": "/nonexistent", "TRAINYARD_SETTINGS": str(settings)}
    return subprocess.run([JOBS / file, *words], capture_output=True, text=True, check=False, env=env)


def in_job(file: str, *words: str, settings: Path, path: str, **job: str) -> subprocess.CompletedProcess[str]:
    """Run a job file as Slurm does, from a copy."""
    copy = settings.with_name("slurm_script")
    shutil.copy(JOBS / file, copy)
    env = {"PATH": f"{path}:{os.environ['PATH']}", "TRAINYARD_SETTINGS": str(settings), "TRAINYARD_JOBS": str(JOBS)}
    env |= {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "a", **job}
    line = ["bash", str(copy), *words]
    return subprocess.run(line, capture_output=True, text=True, check=False, env=env, timeout=300)


@pytest.mark.parametrize("file", FILES)
def test_help(file: str, settings: Path) -> None:
    done = run(file, "--help", settings=settings)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{file.removesuffix('.sbatch')}: ")
    assert f"Usage: {file}" in done.stdout
    assert "--test-only" in done.stdout


@pytest.mark.parametrize("file", FILES)
def test_variables_of_the_table_are_unique_and_read(file: str, settings: Path) -> None:
    rows = [line.split() for line in run(file, "--help", settings=settings).stdout.splitlines() if "  --" in line[:4]]
    variables = [row[2] for row in rows if len(row) > 2 and re.fullmatch("[A-Z_]+", row[2])]
    assert len(variables) >= 7 and len(variables) == len(set(variables))
    text = "".join(path.read_text() for path in (JOBS / file, *(JOBS / "lib").glob("*.sh")))
    assert [name for name in variables if not re.search(rf"\$\{{{name}\b", text)] == []


def test_a_first_node_without_an_address_is_named(slurm: str, settings: Path) -> None:
    # More names than a pipe holds.
    fake_command(Path(slurm) / "scontrol", "seq --format=gpu-%g 9 20000")
    fake_command(Path(slurm) / "getent", "exit 2")  # getent(1): the key is not in the database
    script = (
        """set -euo pipefail; JOB_FILE=job; TRAINYARD_JOBS="$1"; . "$1/lib/distributed.sh"; distributed::rendezvous"""
    )
    env = {"PATH": f"{slurm}:{os.environ['PATH']}", "TRAINYARD_SETTINGS": str(settings), "HOSTNAME": "head"}
    env |= {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_NODELIST": "gpu-[9-10]"}
    done = subprocess.run(["bash", "-c", script, "job", JOBS], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 1 and "the name gpu-9 of the job's first node has no address on head" in done.stderr


def test_pair_test_mixes_no_rounds_of_two_runs(slurm: str, settings: Path, tmp_path: Path) -> None:
    fake_command(Path(slurm) / "scontrol", "true")
    (tmp_path / "nodes").touch()
    words = ["--results", str(tmp_path)]
    done = in_job("pair-test.sbatch", *words, settings=settings, path=slurm, SLURM_JOB_NUM_NODES="3")
    assert done.returncode == 1 and "give --results a new folder" in done.stderr


# srun passes its stdin to its tasks.
SRUN = """
cat >/dev/null
while [[ "$1" == --* ]]; do shift; done
exec "$@"
"""
FIO = """
for word; do [[ "${word}" != --output=* ]] || file="${word#*=}"; done
echo '{"jobs": [{"error": 0, "write": {"bw_bytes": 1e12}, "read": {"bw_bytes": 1e12}}]}' >"${file}"
"""


@pytest.mark.parametrize("mounts", [("fsx1", "fsx2"), ()])
def test_storage_test_measures_every_mount(mounts: tuple[str, ...], slurm: str, settings: Path, tmp_path: Path) -> None:
    for name, text in (("scontrol", "true"), ("srun", SRUN), ("fio", FIO)):
        fake_command(Path(slurm) / name, text)
    for mount in mounts:
        (tmp_path / mount).mkdir()
    paths = ("/home", *(str(tmp_path / mount) for mount in mounts))
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"mounts": [{"path": path} for path in paths]}))
    words = ["--tool", "fio", "--results", str(tmp_path / "results")]
    done = in_job("storage-test.sbatch", *words, settings=settings, path=slurm, SLURM_JOB_NUM_NODES="1")
    assert done.returncode == (0 if mounts else 1), done.stderr
    assert ("nothing was measured" in done.stderr) is (not mounts)
    assert len(list((tmp_path / "results").glob("*_fsx?.json"))) == len(mounts)


def test_a_job_reads_its_options_from_the_copy_of_slurm(settings: Path, slurm: str) -> None:
    """The original may be gone, and scontrol cuts a path with a space."""
    for name, text in (("scontrol", 'echo "JobId=7 Command=/gone/hello WorkDir=/"'), ("srun", 'echo "$@"')):
        fake_command(Path(slurm) / name, text)
    done = in_job("hello-gpu.sbatch", "--gpus", "3", settings=settings, path=slurm, SLURM_JOB_NUM_NODES="2")
    assert done.returncode == 0, done.stderr
    assert "passed: 2 nodes with 3 GPUs each" in done.stderr


def library(script: str, *words: object, path: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run lines with the functions of the training jobs."""
    text = f'JOB_FILE=/x/test TRAINYARD_JOBS={JOBS}; . "$TRAINYARD_JOBS/lib/training.sh"; {script}'
    env = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}", **variables}
    line = ["bash", "-euo", "pipefail", "-c", text, "test", *map(str, words)]
    return subprocess.run(line, capture_output=True, text=True, check=False, env=env, timeout=60)


def test_a_short_outage_of_slurmctld_does_not_end_a_job(settings: Path, slurm: str, tmp_path: Path) -> None:
    again = f"[[ -e {tmp_path}/$2 ]] || {{ touch {tmp_path}/$2; exit 1; }}"
    fake_command(Path(slurm) / "scontrol", f"{again}; echo ActiveFeatures=efa,p5.48xlarge")
    for name, text in (("srun", 'echo "$@"'), ("sleep", "true")):
        fake_command(Path(slurm) / name, text)
    done = in_job("hello-gpu.sbatch", "--gpus", "3", settings=settings, path=slurm, SLURM_JOB_NUM_NODES="2")
    assert done.returncode == 0, done.stderr


def test_a_folder_is_used_only_if_its_user_made_it(tmp_path: Path) -> None:
    (tmp_path / "checks").symlink_to("elsewhere")
    (tmp_path / "elsewhere").mkdir()
    made = library('job::own_folder "$1" checks; job::own_folder "$1" new', tmp_path)
    assert made.stdout == f"{tmp_path}/checks{tmp_path}/new" and (tmp_path / "new").is_dir()
    assert library('JOB_TEST_ONLY=yes; job::own_folder "$1" planned', tmp_path).stdout == f"{tmp_path}/planned"
    assert not (tmp_path / "planned").exists()
    if os.geteuid() == 0:  # only root can make folders of somebody else
        os.chown(tmp_path / "checks", 65534, 65534, follow_symlinks=False)
        os.chown(tmp_path / "new", 65534, 65534)
        for name in ("checks", "new"):
            refused = library('job::own_folder "$1" "$2"', tmp_path, name)
            assert refused.returncode == 1
            assert f"{tmp_path}/{name} belongs to nobody, not to you" in refused.stderr


@pytest.mark.parametrize(("state", "status"), [("", 0), ("7 R", 1), ("7 CG", 0), ("70 R", 0), ("failed", 0)])
def test_only_a_job_that_has_ended_gives_its_experiment_away(
    state: str, status: int, slurm: str, tmp_path: Path
) -> None:
    """A completing job is waited for, and so is squeue; here both end after the first question."""
    (tmp_path / ".job").write_text("7\n")
    fake_command(
        Path(slurm) / "squeue",
        f"[[ ! -e {tmp_path}/asked ]] || exit 0; touch {tmp_path}/asked; [[ '{state}' != failed ]] && echo '{state}'",
    )
    fake_command(Path(slurm) / "sleep", f"touch {tmp_path}/slept")
    variables = {"SLURM_JOB_ID": "8", "CHECKPOINT_DIR": str(tmp_path), "EXPERIMENT_NAME": "e"}
    done = library('training::only_job "$1/.job"', tmp_path, path=slurm, **variables)
    assert done.returncode == status
    assert ("job 7 (state R) trains e" in done.stderr) is bool(status)
    assert (tmp_path / "slept").exists() is (state in ("7 CG", "failed"))


def test_a_model_without_a_folder_is_reported(settings: Path) -> None:
    found = json.loads(settings.read_text())
    found["models"][0]["folders"]["outputs"] = None
    settings.write_text(json.dumps(found))
    script = "source <(sed '$d' \"$TRAINYARD_JOBS/train-model.sbatch\"); MODEL=model1; production::folders"
    env = {"PATH": os.environ["PATH"], "TRAINYARD_SETTINGS": str(settings), "TRAINYARD_JOBS": str(JOBS)}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 1 and f"model model1 has no folder for outputs in {settings}" in done.stderr


@pytest.mark.parametrize("hung", ["exec sleep 600", "trap '' TERM; sleep 600"], ids=["terminated", "killed"])
def test_nccl_tests_ends_a_hung_collective_and_leaves_out_the_others(
    hung: str, slurm: str, settings: Path, tmp_path: Path
) -> None:
    """srun finds the programs, then measures all_reduce and hangs in all_gather."""
    fake_command(Path(slurm) / "scontrol", "[ $2 != hostnames ] || echo localhost")
    table = JOBS.parents[1] / "tests/jobs/nccl/slurm-all_reduce.txt"
    hangs = f'case "$*" in *" -c "*) echo nccl-tests ;; *all_reduce_perf*) cat {table} ;; *) {hung} ;; esac'
    fake_command(Path(slurm) / "srun", hangs)
    words = ["--results", str(tmp_path / "results"), "--limit", "5", "--tests", "all_reduce,all_gather,reduce"]
    job = {"SLURM_JOB_NUM_NODES": "1", "SLURM_GPUS_ON_NODE": "2", "SLURM_JOB_NODELIST": "a"}
    done = in_job("nccl-tests.sbatch", *words, settings=settings, path=slurm, **job)
    assert done.returncode == 1
    assert [path.stem for path in sorted((tmp_path / "results").glob("*.txt"))] == ["all_gather", "all_reduce"]
    assert re.search(r"(?m)^all_reduce .* passed$", done.stdout), done.stderr
    assert re.search(r"(?m)^all_gather .* FAILED\n +hung: a process, node or link does not answer", done.stdout)


@pytest.mark.parametrize(
    ("file", "words", "says"),
    [
        ("hello-gpu.sbatch", ["--nonsense"], "unknown option '--nonsense'"),
        ("hello-gpu.sbatch", ["--nodes", "many"], "--nodes 'many': give a whole number from 1 to 1024"),
        ("hello-gpu.sbatch", ["--nodes=0"], "--nodes '0'"),
        ("hello-gpu.sbatch", ["--time", "soon"], "--time 'soon'"),
        ("hello-gpu.sbatch", ["--image"], "--image needs a value"),
        ("hello-gpu.sbatch", ["word"], "unknown option 'word'"),
        ("hello-gpu.sbatch", ["--gpus", "no"], "--gpus 'no'"),
        ("gpu-burn.sbatch", ["--seconds", "1"], "--seconds '1': give a whole number from 6 to 86400"),
        ("gpu-burn.sbatch", ["--limit", "no"], "--limit 'no'"),
        ("nccl-tests.sbatch", ["--tests", "all_reduce,sendrecv"], "--tests 'sendrecv': give all_reduce"),
        ("nccl-tests.sbatch", ["--max", "4 GB"], "size '4 GB'"),
        ("nccl-tests.sbatch", ["--binaries", "build"], "--binaries 'build': give an absolute path"),
        ("nccl-tests.sbatch", ["--engine", "mpi"], "--engine 'mpi': give auto, nccl-tests or torch"),
        ("nccl-tests.sbatch", ["--limit", "no"], "--limit 'no'"),
        ("nccl-tests.sbatch", ["--backend", "mpi"], "--backend 'mpi': give nccl or gloo"),
        ("storage-test.sbatch", ["--tool", "dd"], "--tool 'dd': give ior or fio"),
        ("storage-test.sbatch", ["--mounts-to-test", "/fsx9"], "'/fsx9' is not a mount of the environment; allowed:"),
        ("storage-test.sbatch", ["--fraction", "800"], "from 1 to 100"),
        ("s3-test.sbatch", ["--mib", "0"], "--mib '0': give a whole number from 1 to 100000"),
        ("storage-test.sbatch", ["--clients", "1,,2"], "--clients '1,,2': give numbers of nodes, joined by commas"),
        ("train-small.sbatch", ["--gpus", "0"], "--gpus '0': give a whole number from 1 to 16"),
        ("train-small.sbatch", ["--nodes", "2"], "--nodes '2': this job takes a part of one node"),
        ("notebook.sbatch", ["--folder", "here"], "--folder 'here': give an absolute path"),
        ("notebook.sbatch", ["--port", "80"], "--port '80': give a whole number from 1024 to 65535"),
        ("tensorboard.sbatch", ["--logs", "/nowhere"], "--logs '/nowhere': no such folder"),
        ("data-prepare.sbatch", ["--shards", "/x"], "give --tokenizer FILE and --shards DIR"),
        ("data-prepare.sbatch", ["--tokenizer", "/t", "--shards", "/x"], "no input: give files or folders after --"),
        ("data-prepare.sbatch", ["--tokenizer", "t", "--shards", "/x", "--", "/y"], "'t': give an absolute path"),
        ("train-torchrun.sbatch", ["--experiment", "../other"], "--experiment '../other'"),
        ("train-torchrun.sbatch", ["--rendezvous", "etcd"], "--rendezvous 'etcd': give static or c10d"),
        ("train-deepspeed.sbatch", ["--config"], "--config needs a value"),
        ("train-megatron.sbatch", ["--tensor", "0"], "--tensor '0'"),
        ("train-megatron.sbatch", [], "which recipe? --recipe NAME, one of: gpt-1.3b"),
        ("megatron-prepare.sbatch", [], "--name ''"),
        ("megatron-prepare.sbatch", ["--name", "x", "--key", "a b"], "--key 'a b'"),
        ("megatron-convert.sbatch", ["--name", "x"], "--to '': give hf or megatron"),
        ("train-model.sbatch", ["--", "program"], "which model? --model NAME, one of: model1 model2"),
        ("train-model.sbatch", ["--model", "gpt", "--", "x"], "no model 'gpt' in this environment; allowed: model1"),
        ("train-model.sbatch", ["--model", "model1 model2", "--", "x"], "no model 'model1 model2' in this environment"),
        ("train-model.sbatch", ["--model", "model1"], "no program: give it after --"),
        ("train-model.sbatch", ["--model", "model1", "--style", "zip", "--", "x"], "--style 'zip'"),
        ("train-model.sbatch", ["--model", "model1", "--export", "/fsx1", "--", "x"], "--export '/fsx1'"),
        ("train-model.sbatch", ["--model", "model1", "--grace", "5", "--", "x"], "--grace '5'"),
    ],
)
def test_wrong_values(file: str, words: list[str], says: str, settings: Path) -> None:
    done = run(file, *words, settings=settings)
    assert done.returncode == 64, done.stderr
    assert says in done.stderr
    assert f"Try: {file} --help" in done.stderr


@pytest.fixture
def slurm(settings: Path, tmp_path: Path) -> str:
    """A folder of commands whose sbatch prints its arguments; the models' folders are below tmp_path."""
    settings.write_text(settings.read_text().replace('"/fsx', f'"{tmp_path}/fsx'))
    fake = tmp_path / "bin"
    for name, text in (("sbatch", 'printf "%s\\n" "$@"'), ("sinfo", "true")):
        fake_command(fake / name, text)
    return str(fake)


def test_a_model_brings_its_queue_nodes_and_folder_for_logs(settings: Path, tmp_path: Path, slurm: str) -> None:
    """What the production job hands to Slurm; an option wins over the model's entry."""
    (tmp_path / "fsx3/model7/training_logs").mkdir(parents=True)
    words = ["--model", "model7", "--", "/workspace/train.py", "--nodes", "9"]
    lines = run("train-model.sbatch", *words, settings=settings, path=slurm).stdout.splitlines()
    assert {
        "--job-name=model7",
        "--partition=gpu-queue",
        "--nodes=14",
        "--signal=B:USR1@600",
        f"--output={tmp_path}/fsx3/model7/training_logs/%x-%j.out",
    } <= set(lines)
    assert lines[-7:] == [str(JOBS / "train-model.sbatch"), *words]
    lines = run("train-model.sbatch", "--nodes=2", *words, settings=settings, path=slurm).stdout.splitlines()
    assert "--nodes=2" in lines


def test_a_model_of_a_team_counts_for_it_and_gets_no_more_than_its_nodes(
    settings: Path, tmp_path: Path, slurm: str
) -> None:
    (tmp_path / "fsx3/model7/training_logs").mkdir(parents=True)
    known = json.loads(settings.read_text())
    known["models"][-1]["team"] = "speech"
    settings.write_text(json.dumps(known))
    words = ["--model", "model7", "--", "/workspace/train.py"]
    lines = run("train-model.sbatch", *words, settings=settings, path=slurm).stdout.splitlines()
    assert {"--account=speech", "--nodes=14"} <= set(lines)
    assert not any(line.startswith("--qos") for line in lines)
    options = ["--account", "nlp", "--qos=urgent", "--nodes", "3"]
    lines = run("train-model.sbatch", *options, *words, settings=settings, path=slurm).stdout.splitlines()
    assert {"--account=nlp", "--qos=urgent", "--nodes=3"} <= set(lines)
    done = run("train-model.sbatch", "--nodes", "15", *words, settings=settings, path=slurm)
    assert (done.returncode, done.stdout) == (64, "")
    assert "--nodes 15: the model model7 of the team speech has 14 nodes" in done.stderr


def test_a_queue_that_gives_whole_nodes_is_refused(settings: Path, slurm: str) -> None:
    partitions = (
        "PartitionName=whole Default=YES OverSubscribe=EXCLUSIVE\nPartitionName=part Default=NO OverSubscribe=NO"
    )
    fake_command(Path(slurm) / "scontrol", f'[[ "$*" == *config* ]] || echo "{partitions}"')
    done = run("train-small.sbatch", settings=settings, path=slurm)
    assert done.returncode == 64
    assert "queue 'whole' gives each job whole nodes: give --queue one of: part" in done.stderr
    done = run("train-small.sbatch", "--queue", "part", "--gpus", "3", "--output", "x", settings=settings, path=slurm)
    assert "memory_scheduling is off" in done.stderr
    assert {"--partition=part", "--nodes=1", "--gpus=3"} <= set(done.stdout.splitlines())
    # More lines after it than a pipe holds.
    config = "echo SelectTypeParameters=CR_CORE_MEMORY; seq 20000"
    fake_command(Path(slurm) / "scontrol", f'if [[ "$*" == *config* ]]; then {config}; else echo "{partitions}"; fi')
    done = run("train-small.sbatch", "--queue", "part", "--gpus", "3", "--output", "x", settings=settings, path=slurm)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("output", ["", "{folder}/not-there/%x.out"])
def test_a_missing_folder_for_the_output_is_reported_before_submission(
    output: str, settings: Path, tmp_path: Path, slurm: str
) -> None:
    """Slurm would fail the job without a message to the user."""
    options = ["--output", output.format(folder=tmp_path)] if output else []
    words = ["--model", "model7", *options, "--", "/workspace/train.py"]
    done = run("train-model.sbatch", *words, settings=settings, path=slurm)
    assert (done.returncode, done.stdout) == (64, "")
    folder = f"{tmp_path}/not-there" if output else f"{tmp_path}/fsx3/model7/training_logs"
    assert f"the folder {folder} for the job's output does not exist" in done.stderr


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("", ""),
        ("", ".tmp-job-7"),
        ("/fsx", ""),
        ("/fsx/.tmp-job-8", ".tmp-job-8"),
        ("/fsx/../.tmp-job-7", ".tmp-job-7"),
        ("relative/.tmp-job-7", ".tmp-job-7"),
        ("/fsx/other", ".tmp-job-7"),
        ("{link}", ".tmp-job-7"),
    ],
)
def test_nothing_but_the_jobs_own_folder_is_removed(path: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / ".tmp-job-7").symlink_to(tmp_path / "kept")
    script = f'JOB_FILE=/x/test TRAINYARD_JOBS={JOBS}; . "{JOBS}/lib/job.sh"; job::remove_own "$1" "$2"'
    arguments = ["bash", "-euc", script, "test", path.format(link=tmp_path / ".tmp-job-7"), name]
    done = subprocess.run(
        arguments, capture_output=True, text=True, check=False, env={**os.environ, "SLURM_JOB_ID": "7"}
    )
    assert done.returncode == 1
    assert "will not remove" in done.stderr
    assert (tmp_path / "kept").is_dir()


@pytest.mark.parametrize("file", FILES)
def test_every_job_takes_whole_nodes_with_all_their_memory_or_shares_them(file: str) -> None:
    """With memory-based scheduling a job that names no memory would share its node, or get a sliver of it."""
    directives = [line.removeprefix("#SBATCH ") for line in (JOBS / file).read_text().splitlines() if "#SBATCH" in line]
    whole = {"--exclusive", "--mem=0"}
    assert whole & set(directives) == (set() if file in SHARING else whole)
    assert any(line.startswith("--time=") for line in directives)

"""Training on real nodes of Slurm: PyTorch with gloo, time limits, seven models at once."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from local.slurm import Laboratory
from tests.jobs.conftest import NODE_TORCH
from tests.jobs.test_megatron import PREPROCESS

ENV = {"PYTHONPATH": NODE_TORCH, "OMP_NUM_THREADS": "1", "TELEMETRY_SECONDS": "2"}
TRAIN = "/opt/trainyard/current/training/train.py"
BUCKET = "/run/lab/s3/jakarta-checkpoints"


def submit(lab: Laboratory, line: str, env: Mapping[str, str] = ENV) -> str:
    """Submit a job by a shell line; returns its id."""
    return lab.run(line, env=env).stdout.split()[-1]


def losses(lab: Laboratory, file: str) -> dict[int, float]:
    """The loss of each step; of a step that was repeated, the last."""
    lines = lab.output(["cat", file]).splitlines()
    return {one["step"]: one["loss"] for one in map(json.loads, lines)}


@pytest.fixture(scope="module")
def seven(lab: Laboratory, jobs: str) -> dict[str, tuple[str, dict[str, str]]]:
    """All models of the environment at once, each on its own node: job and what Slurm says of it, by model."""
    program = f"-- {TRAIN} --steps 30 --every 10 --schedule constant --metrics /fsx1/results/$MODEL.json"
    names = [model.name for model in lab.plan.environment.models]
    submitted = {
        name: submit(lab, f"{jobs}/train-model.sbatch --procs 1 {program}", {**ENV, "MODEL": name}) for name in names
    }
    return {name: (job, lab.wait_for_job(job, seconds=400)) for name, job in submitted.items()}


def test_seven_models_at_once_in_their_own_folders_and_in_s3(
    lab: Laboratory, seven: dict[str, tuple[str, dict[str, str]]]
) -> None:
    assert len({found["NodeList"] for _, found in seven.values()}) == 7
    starts = [found["StartTime"] for _, found in seven.values()]
    ends = [found["EndTime"] for _, found in seven.values()]
    assert max(starts) < min(ends), "they did not run side by side"
    for name, (job, found) in seven.items():
        assert (found["JobName"], found["Partition"]) == (name, "gpu-queue")
        assert found["StdOut"] == f"/fsx3/{name}/training_logs/{name}-{job}.out"
        checkpoints = lab.output(["ls", "-A", f"/fsx2/{name}/checkpoints"]).split()
        assert checkpoints == [".job", "step-00000010", "step-00000020", "step-00000030"], "no temporary folder"
        samples = lab.output(["cat", f"/fsx3/{name}/training_logs/gpu-{job}-{found['NodeList']}.csv"]).splitlines()
        assert samples[0].startswith("time,index,uuid")
        assert len(samples) > 8
        assert [line.split(", ")[1] for line in samples[1:9]] == list("01234567")
        copy = f"{BUCKET}/final/{name}/{job}/step-00000030"
        lab.run(["diff", "-r", copy, f"/fsx2/{name}/checkpoints/step-00000030"])
        assert "S3 checked each file's CRC-32" in lab.output(["cat", found["StdOut"]])
        assert lab.run(["pgrep", "-f", "query-gpu"], node=found["NodeList"], user="root", check=False).stdout == ""


@pytest.fixture(scope="module")
def limited(lab: Laboratory, jobs: str) -> str:
    """A job that is longer than its time limit. It runs for minutes on two nodes while the other tests use the rest."""
    lab.run("rm -rf /fsx2/model2/checkpoints/step-*")
    return submit(
        lab,
        f"{jobs}/train-model.sbatch --model model2 --nodes 2 --procs 1 --time 3 --grace 60 "
        f"-- {TRAIN} --steps 70 --every 1000 --step-seconds 2",
    )


def test_a_second_job_of_a_model_is_refused_whatever_its_name(lab: Laboratory, jobs: str, limited: str) -> None:
    claim = "/fsx2/model2/checkpoints/.job"
    lab.wait(lambda: lab.run(["cat", claim], check=False).stdout.strip() == limited, claim)
    second = submit(lab, f"sbatch --job-name=other --nodes=1 {jobs}/train-model.sbatch --model model2 -- {TRAIN}")
    refused = lab.wait_for_job(second, states=("FAILED",))
    assert f"job {limited} (state R) trains model2" in lab.output(["cat", refused["StdOut"]])


def test_a_program_that_does_not_listen_is_ended_in_time_and_comes_back(lab: Laboratory, jobs: str) -> None:
    """SIGUSR1 sent by hand; --attempts 1 fails the job, which wrote no checkpoint."""
    lab.run("rm -rf /fsx2/model5/checkpoints/step-*")
    lab.write("/fsx1/results/deaf.py", "import time\nprint('started', flush=True)\ntime.sleep(600)\n")
    job = submit(
        lab,
        f"{jobs}/train-model.sbatch --model model5 --procs 1 --grace 30 --attempts 1 -- /fsx1/results/deaf.py",
    )
    output = f"/fsx3/model5/training_logs/model5-{job}.out"
    lab.wait(lambda: "started" in lab.run(["cat", output], check=False).stdout, "the program")
    lab.run(["scancel", "--batch", "--signal=USR1", job])
    lab.wait_for_job(job, states=("FAILED",))
    text = lab.output(["cat", output])
    assert "the program continues; ending it" in text
    assert "requeue: the time limit is near" in text
    assert "1 attempts began at step -1 and none wrote a newer checkpoint" in text


def test_a_program_that_fails_without_progress_fails_the_job(lab: Laboratory, jobs: str) -> None:
    lab.run("rm -rf /fsx2/model3/checkpoints/step-*")
    lab.write("/fsx1/results/fails.py", "raise SystemExit(3)\n")
    job = submit(lab, f"{jobs}/train-model.sbatch --model model3 --procs 1 -- /fsx1/results/fails.py")
    found = lab.wait_for_job(job, states=("FAILED",))
    assert found["Restarts"] == "0"
    assert "before it wrote a newer checkpoint than that of step -1" in lab.output(["cat", found["StdOut"]])


def test_nothing_is_removed_where_the_export_fails_and_submitting_again_goes_on_there(
    lab: Laboratory, jobs: str
) -> None:
    line = f"{jobs}/train-model.sbatch --model model4 --procs 1"
    program = f"-- {TRAIN} --steps 30 --every 10"
    job = submit(lab, f"{line} --export s3://no-such-bucket/final {program}")
    found = lab.wait_for_job(job, states=("FAILED",))
    assert "is not completely in s3://no-such-bucket/final; nothing was removed" in lab.output(["cat", found["StdOut"]])
    assert f".tmp-job-{job}" in lab.output(["ls", "-A", "/fsx2/model4/checkpoints"]).split()
    again = lab.wait_for_job(submit(lab, f"{line} {program}"))
    output = lab.output(["cat", again["StdOut"]])
    assert "the run is complete: /fsx2/model4/checkpoints/step-00000030" in output
    assert "S3 checked each file's CRC-32" in output
    lab.run(["rm", "-rf", f"/fsx2/model4/checkpoints/.tmp-job-{job}"])


def test_ranks_and_devices_of_torchrun_on_two_nodes(lab: Laboratory, jobs: str) -> None:
    """Ranks 0 and 1 on Slurm's first node, 2 and 3 on the second; every process sees the GPUs that Slurm gave."""
    # A file a rank: lines of several processes that share one output may be cut into each other.
    program = (
        "import json, os, socket\n"
        "keys = ('RANK', 'LOCAL_RANK', 'WORLD_SIZE', 'CUDA_VISIBLE_DEVICES', 'NCCL_NET', 'EXPERIMENT_NAME')\n"
        "found = {key: os.environ.get(key) for key in keys}\n"
        "with open(f'/fsx1/results/rank-{found[\"RANK\"]}.json', 'w') as file:\n"
        "    json.dump({'host': socket.gethostname(), **found}, file)\n"
    )
    lab.run("rm -f /fsx1/results/rank-*.json")
    lab.write("/fsx1/results/ranks.py", program)
    job = submit(lab, f"{jobs}/train-torchrun.sbatch --nodes 2 --procs 2 --experiment ranks -- /fsx1/results/ranks.py")
    found = lab.wait_for_job(job)
    tasks = [json.loads(lab.output(["cat", f"/fsx1/results/rank-{rank}.json"])) for rank in range(4)]
    hosts = lab.output(["scontrol", "show", "hostnames", found["NodeList"]]).split()
    assert [task["host"] for task in tasks] == [hosts[0], hosts[0], hosts[1], hosts[1]]
    assert [int(task["LOCAL_RANK"]) for task in tasks] == [0, 1, 0, 1]
    assert {(task["WORLD_SIZE"], task["NCCL_NET"], task["EXPERIMENT_NAME"]) for task in tasks} == {
        ("4", "OFI", "ranks")
    }
    assert {task["CUDA_VISIBLE_DEVICES"] for task in tasks} == {"0,1,2,3,4,5,6,7"}


def test_one_job_of_an_experiment_runs_at_a_time(lab: Laboratory, jobs: str) -> None:
    """The second is refused; after the first has ended, its id in the folder does not matter."""
    lab.write(
        "/fsx1/results/waits.py",
        "import os, time\nwhile not os.path.exists('/fsx1/results/go'):\n    time.sleep(0.2)\n",
    )
    lab.run("rm -f /fsx1/results/go")
    line = f"{jobs}/train-torchrun.sbatch --nodes 1 --procs 1 --experiment single -- /fsx1/results/waits.py"
    first = submit(lab, line)
    lock = "/fsx2/checkpoints/single/.job"
    lab.wait(lambda: lab.run(["cat", lock], check=False).stdout.strip() == first, lock, seconds=120)
    refused = lab.wait_for_job(submit(lab, line), states=("FAILED",))
    assert f"job {first} (state R) trains single" in lab.output(["cat", refused["StdOut"]])
    lab.run(["touch", "/fsx1/results/go"])
    lab.wait_for_job(first)
    third = submit(lab, line)
    lab.wait_for_job(third)
    assert lab.output(["ls", "-A", "/fsx2/checkpoints/single"]).split() == [".job"]
    assert lab.output(["cat", lock]).strip() == third


def test_megatron_gets_its_recipe_and_folders(lab: Laboratory, jobs: str) -> None:
    """A stand-in for pretrain_gpt.py of Megatron-LM core_v0.16.1 says what it was given."""
    program = "import os, sys\nif os.environ['RANK'] == '3':\n    print('GIVEN', *sys.argv[1:], flush=True)\n"
    lab.write("/fsx1/results/megatron/pretrain_gpt.py", program)
    functions = "def training_log(): pass\ndef save_checkpoint(): pass\ndef evaluate_and_print_results(): pass\n"
    lab.write("/fsx1/results/megatron/megatron/training/training.py", functions)
    # Data first, by a stand-in for preprocess_data.py.
    lab.write("/fsx1/results/megatron/tools/preprocess_data.py", PREPROCESS.replace("MISSING", "0"))
    lab.write("/fsx1/results/in.jsonl", '{"text": "a"}\n' * 3)
    lab.write("/fsx1/results/tokenizer/tokenizer.json", "{}")
    prepare = f"{jobs}/megatron-prepare.sbatch --megatron /fsx1/results/megatron --queue gpu-queue"
    prepare += " --input /fsx1/results/in.jsonl"
    found = lab.wait_for_job(submit(lab, f"{prepare} --tokenizer /fsx1/results/tokenizer --name small"))
    folder = f"{lab.plan.settings()['folders']['data']}/megatron/small"  # type: ignore[index]
    assert f"passed: {folder} is complete" in lab.output(["cat", found["StdOut"]])
    line = f"{jobs}/train-megatron.sbatch --nodes 2 --procs 2 --megatron /fsx1/results/megatron --experiment gpt"
    line += " --recipe gpt-debug"
    found = lab.wait_for_job(submit(lab, f"{line} --pipeline 2 --data {folder} -- --num-layers 24"))
    output = lab.output(["cat", found["StdOut"]])
    given = next(line.partition("GIVEN ")[2] for line in output.splitlines() if "GIVEN " in line)
    assert f"--data-path {folder}/data_text_document --tokenizer-type HuggingFaceTokenizer" in given
    assert "--num-layers 24 --hidden-size 384" in given
    assert "--tensor-model-parallel-size 1 --pipeline-model-parallel-size 2" in given
    assert "--save /fsx2/checkpoints/gpt --load /fsx2/checkpoints/gpt" in given
    assert "--exit-signal SIGUSR1" in given
    refused = lab.run(f"{line} --pipeline 3 -- --mock-data", env=ENV, check=False)
    assert refused.returncode == 64
    assert "tensor 1 x pipeline 3 x context 1 = 3 does not divide 2 nodes x 2 GPUs = 4" in refused.stderr


def test_before_the_time_limit_a_checkpoint_is_written_and_the_job_comes_back(lab: Laboratory, limited: str) -> None:
    found = lab.wait_for_job(limited, seconds=600)
    output = lab.output(["cat", found["StdOut"]])
    assert int(found["Restarts"]) >= 1
    assert "the time limit is 60 s away: asking the program for a checkpoint" in output
    assert "stopped on request after step" in output
    assert "requeue: the time limit is near" in output
    assert "resumed from /fsx2/model2/checkpoints/step-" in output
    assert "passed: model2 is done at step 70" in output

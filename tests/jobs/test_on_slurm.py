"""Every job is taken by Slurm, and the checks see what is there."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from local.slurm import Laboratory
from local.slurm.host import PATH
from ops.data import manifest
from tests.jobs.conftest import JOBS, NODE_TORCH, ROOT, SHARING
from tests.slurm import registry

# Those of Megatron-LM check files before they submit: test_megatron.py.
FILES = sorted(path.name for path in JOBS.glob("*.sbatch") if "megatron" not in path.name)
# What a file cannot do without.
NEEDED = {
    "data-stage.sbatch": ["--data", "corpus"],
    "train-deepspeed.sbatch": ["--", "program"],
    "train-model.sbatch": ["--model", "model1", "--", "program"],
    "data-prepare.sbatch": ["--tokenizer", "/t.json", "--shards", "/shards", "--", "/text"],
}


def submit(lab: Laboratory, line: str, env: dict[str, str] | None = None, state: str = "COMPLETED") -> str:
    """Run a job to its end. Returns its output."""
    output = " --output=/fsx3/%x-%j.out"
    with_output = line.replace("sbatch", f"sbatch{output}", 1) if line.startswith("sbatch ") else ""
    answer = lab.run(with_output or line.replace(".sbatch", f".sbatch{output}", 1), env=env).stdout.strip()
    found = lab.wait_for_job(answer.split()[-1], states=(state,))
    return lab.output(["cat", found["StdOut"]])


@pytest.fixture(autouse=True)
def writable(lab: Laboratory) -> None:
    lab.run(["chmod", "1777", "/fsx1", "/fsx2", "/fsx3"], user="root")


@pytest.mark.parametrize("file", FILES)
def test_slurm_would_take_it(lab: Laboratory, jobs: str, file: str) -> None:
    by_itself = lab.run([f"{jobs}/{file}", "--test-only", *NEEDED.get(file, [])])
    assert "to start at" in by_itself.stderr
    if file not in SHARING:
        by_sbatch = lab.run(["sbatch", "--test-only", "--nodes=2", f"{jobs}/{file}"])
        assert "using 384 processors" in by_sbatch.stderr


def test_hello_gpu(lab: Laboratory, jobs: str) -> None:
    output = submit(lab, f"{jobs}/hello-gpu.sbatch --nodes 2")
    assert output.count("NVIDIA H200 (simulated) (UUID") == 16
    assert "passed: 2 nodes with 8 GPUs each" in output
    refused = lab.run(f"cd / && TRAINYARD_SETTINGS=/none {jobs}/hello-gpu.sbatch", check=False)
    assert refused.returncode == 64 and "you may not write to the current folder" in refused.stderr


def test_a_file_system_is_copied_as_documented(lab: Laboratory) -> None:
    """docs/storage.md, "Replace a file system": owners, modes, links and times are those of the old one."""
    [line] = re.findall(r"`(srun .*rsync .*) /fsx/ /fast/`", (ROOT / "docs" / "storage.md").read_text())
    old, new = "/fsx1/old/", "/fsx2/new/"
    made = f"mkdir -p {old}a {new} && cd {old}a && echo data >file && ln file hard && ln -s file soft && chmod 640 file"
    lab.run(
        ["bash", "-c", f"{made} && chown 4711:4712 file && chmod 2775 . && touch -hd 2020-01-01 file soft . .."],
        user="root",
    )
    lab.run(f"{line} {old} {new}")
    listed = "find . -printf '%p %y %m %U:%G %n %l %TF\\n' | sort"
    was, found = (lab.output(["bash", "-c", f"cd {at} && {listed}"], user="root") for at in (old, new))
    assert was == found and "./a/hard f 640 4711:4712 2" in found
    assert lab.output(["cat", f"{new}a/soft"], user="root") == "data"
    again = lab.run(f"{line} --dry-run --checksum --itemize-changes {old} {new}").stdout
    assert not re.search(r"(?m)^[<>c.*]\S{10} ", again), again


def test_a_job_whose_file_is_gone_keeps_its_options(lab: Laboratory, jobs: str) -> None:
    """A requeued job may start long after; scontrol's path of this file also ends at the space."""
    file = "/fsx1/my jobs/hello-gpu.sbatch"
    lab.run(f"mkdir -p '{Path(file).parent}' && cp {jobs}/hello-gpu.sbatch '{file}'")
    line = ["sbatch", "--parsable", "--hold", "--nodes=2", "--output=/fsx3/%x-%j.out", file, "--gpus", "8"]
    job = lab.run(line, env={"TRAINYARD_JOBS": jobs}).stdout.strip()
    lab.run(["rm", "-r", str(Path(file).parent)])
    lab.run(["scontrol", "release", job])
    found = lab.wait_for_job(job, states=("COMPLETED",))
    assert "passed: 2 nodes with 8 GPUs each" in lab.output(["cat", found["StdOut"]])


@contextmanager
def broken(
    lab: Laboratory, node: str, change: Callable[[Any], object] | None = None, *, efa: bool = False
) -> Iterator[None]:
    """A node whose GPUs are changed, and which has lost an EFA interface."""
    before = lab.output(["cat", "/etc/lab/gpus.json"], node=node)
    found = json.loads(before)
    if change is not None:
        change(found["gpus"])
    lab.write("/etc/lab/gpus.json", json.dumps(found), node=node, user="root")
    if efa:
        lab.run(["mv", "/dev/infiniband/uverbs31", "/dev/lost"], node=node, user="root")
    try:
        yield
    finally:
        lab.write("/etc/lab/gpus.json", before, node=node, user="root")
        if efa:
            lab.run(["mv", "/dev/lost", "/dev/infiniband/uverbs31"], node=node, user="root")


def test_a_node_with_seven_gpus_fails_the_job(lab: Laboratory, jobs: str) -> None:
    with broken(lab, "gpu-queue-dy-p5e-1", lambda gpus: gpus.pop()):
        output = submit(lab, f"{jobs}/hello-gpu.sbatch --nodes 7", state="FAILED")
    assert "gpu-queue-dy-p5e-1: FAILED: 7 GPUs, and there must be 8" in output
    assert "gpu-queue-dy-p5e-7: 8 GPUs" in output
    assert "FAILED: not every one of the 7 nodes" in output


@pytest.fixture(scope="module")
def image(lab: Laboratory) -> Iterator[str]:
    """A small image, imported under a name."""
    pushed = registry.push(lab, "pytorch-training-custom", "jobs")
    lab.write(
        "/home/ubuntu/.config/enroot/.credentials",
        f"machine {lab.plan.registry} login AWS password $(aws ecr get-login-password --region ap-southeast-3)\n",
        mode=0o600,
    )
    reference = "docker://AWS@" + pushed.uri.replace("/", "#", 1)
    lab.run(["enroot", "import", "-o", "/fsx1/containers/images/small.sqsh", reference])
    yield "small"
    lab.run("rm -rf /fsx1/containers/images/small.sqsh ~/.config/enroot")


def test_containers_by_name_see_the_file_systems(lab: Laboratory, jobs: str, image: str) -> None:
    # The image has no nvidia-smi, which on a real node comes from the host: the error is the container's own.
    output = submit(lab, f"{jobs}/hello-gpu.sbatch --nodes 1 --image {image}", state="FAILED")
    assert "nvidia-smi: not found" in output


def test_an_image_that_is_not_there(lab: Laboratory, jobs: str, image: str) -> None:
    output = submit(lab, f"{jobs}/hello-gpu.sbatch --nodes 1 --image none", state="FAILED")
    assert f"no image /fsx1/containers/images/none.sqsh. Imported images: {image}.sqsh" in output


def test_gpu_check_says_what_is_missing(lab: Laboratory, jobs: str) -> None:
    """One node lost NVLinks of a GPU and an EFA interface; the other has what its queue has."""
    settings: dict[str, Any] = copy.deepcopy(lab.plan.settings())
    other = copy.deepcopy(settings["queues"][0]) | {"name": "other"}
    other["compute"][0]["instances"][0]["efa_interfaces"] = 16
    settings["queues"].insert(0, other)
    lab.write("/fsx1/results/settings.json", json.dumps(settings))
    # As in a login shell, where the EFA installer put libfabric's programs into PATH.
    env = {"PATH": f"/opt/amazon/efa/bin:{PATH}", "TRAINYARD_SETTINGS": "/fsx1/results/settings.json"}
    with broken(lab, "gpu-queue-dy-p5e-1", lambda gpus: gpus[3].update(nvlink=0), efa=True):
        output = submit(lab, f"{jobs}/gpu-check.sbatch --nodes 2", env=env, state="FAILED")
    first, second = (
        [line for line in output.splitlines() if line.startswith(f"gpu-queue-dy-p5e-{number}: ")] for number in (1, 2)
    )
    assert len(first) == len(second) == 4
    assert "GPUs" in first[0] and "wanted 8" in first[0] and "passed" in first[0]
    assert "NVLinks" in first[1] and "wanted 18" in first[1] and "FAILED" in first[1]
    assert "GPU peers" in first[2] and "some are NS" in first[2] and "FAILED" in first[2]
    assert "EFA" in first[3] and "31" in first[3] and "wanted 32" in first[3] and "FAILED" in first[3]
    assert all("passed" in line for line in second)


def test_host_scan_judges_every_node(lab: Laboratory, jobs: str) -> None:
    with broken(lab, "gpu-queue-dy-p5e-2", efa=True):
        output = submit(lab, f"{jobs}/host-scan.sbatch --nodes 2 --results /fsx1/results/scan", state="FAILED")
    assert "FAILURE efa-interfaces: found 31, wanted 32" in output
    names = re.findall(r"(?m)^(gpu-queue-dy-p5e-\d): \w+$", output)
    reports = [json.loads(lab.output(["cat", f"/fsx1/results/scan/{name}.json"])) for name in names]
    assert [report["host"] for report in reports] == names
    assert len(names) == 2


def test_storage_with_fio_cleans_up_after_itself(lab: Laboratory, jobs: str) -> None:
    kept = "/fsx3/.storage-test-of-somebody-else"
    lab.run(["mkdir", "-p", kept])
    options = (
        "--mounts-to-test /fsx2,/fsx3 --procs 2 --segments 2 --clients 1,2 --fraction 1 --results /fsx1/results/storage"
    )
    output = submit(lab, f"{jobs}/storage-test.sbatch --tool fio {options}")
    verdict = json.loads(lab.output(["cat", "/fsx1/results/storage/_fsx3.json"]))
    # 4.8 TiB at 200 MB/s/TiB.
    assert verdict["provisioned_mb_s"] == 960
    assert verdict["passed"] and set(verdict["mb_s"]) == {"write", "read"}
    assert [step["nodes"] for step in verdict["steps"]] == [1, 2] and len(verdict["scaling"]) == 2
    assert json.loads(lab.output(["cat", "/fsx1/results/storage/_fsx2.json"]))["passed"]
    assert "passed, see /fsx1/results/storage" in output
    assert lab.output("cd /fsx3; ls -d .storage-test-*") == Path(kept).name
    lab.run(["rmdir", kept])


def test_storage_below_the_provisioned_figure_fails(lab: Laboratory, jobs: str) -> None:
    # A file of this size may lie wholly in a cache: what is asked must be beyond any machine.
    settings = json.loads(lab.output(["cat", "/opt/trainyard/settings.json"]))
    for mount in settings["mounts"]:
        mount["throughput_mb_s"] = 7_200_000
    lab.write("/fsx1/results/beyond.json", json.dumps(settings))
    options = "--mounts-to-test /fsx2 --procs 1 --segments 1 --fraction 100 --results /fsx1/results/slow"
    env = {"TRAINYARD_SETTINGS": "/fsx1/results/beyond.json"}
    output = submit(lab, f"{jobs}/storage-test.sbatch --tool fio {options}", env=env, state="FAILED")
    # Two clients are asked for no more than they can carry.
    assert "FAILED: write" in output
    assert "floor 20000 (100% of 20000)" in output


def test_s3_from_each_node(lab: Laboratory, jobs: str) -> None:
    submit(lab, f"{jobs}/s3-test.sbatch --procs 2 --mib 1 --results /fsx1/results/s3")
    verdict = json.loads(lab.output(["cat", "/fsx1/results/s3/verdict.json"]))
    assert verdict["passed"] and len(verdict["figures"]) == 2 and verdict["all"]["read"] > 0
    settings = json.loads(lab.output(["cat", "/opt/trainyard/settings.json"]))
    settings["buckets"]["checkpoints"] = "absent"
    lab.write("/fsx1/results/absent.json", json.dumps(settings))
    env = {"TRAINYARD_SETTINGS": "/fsx1/results/absent.json"}
    options = "--procs 2 --mib 1 --results /fsx1/results/no-bucket"
    output = submit(lab, f"{jobs}/s3-test.sbatch {options}", env=env, state="FAILED")
    assert re.search(
        r"FAILED gpu-queue-dy-p5e-\d gpu-queue-dy-p5e-\d: write: .*FILE to OBJECT .*\(NoSuchBucket\)", output
    )


def test_nccl_tests_without_the_programs_and_torch_fail(lab: Laboratory, jobs: str, image: str) -> None:
    output = submit(lab, f"{jobs}/nccl-tests.sbatch --nodes 2 --results /fsx1/results/nccl", state="FAILED")
    assert "neither nccl-tests in /opt/nccl-tests/build (--binaries) nor torch with nccl in python3" in output
    output = submit(
        lab, f"{jobs}/nccl-tests.sbatch --nodes 2 --engine nccl-tests", {"PYTHONPATH": NODE_TORCH}, "FAILED"
    )
    assert "--engine nccl-tests finds nothing to measure with in the host of gpu-queue-dy-p5e-" in output
    # What the node has does not count in a container.
    line = f"{jobs}/nccl-tests.sbatch --nodes 2 --image {image}"
    output = submit(lab, line, {"PYTHONPATH": NODE_TORCH}, "FAILED")
    assert f"--engine auto finds nothing to measure with in {image}: neither nccl-tests in" in output
    # Pyxis unpacks the image once, before the steps that have a limit.
    assert f"{image} unpacked on 2 nodes in " in output and "WARNING: not every node" not in output


def test_torch_measures_as_16_ranks_on_two_nodes(lab: Laboratory, jobs: str) -> None:
    """With gloo, over the nodes' TCP: the values are right, and the verdict does not take it for EFA."""
    options = "--nodes 2 --tests alltoall --backend gloo --max 64K --iterations 2 --results /fsx1/results/torch"
    output = submit(
        lab, f"{jobs}/nccl-tests.sbatch {options}", {"PYTHONPATH": NODE_TORCH, "OMP_NUM_THREADS": "1"}, "FAILED"
    )
    assert "alltoall on 2 x 8 GPUs, 8 to 64K, with torch" in output
    [one] = json.loads(lab.output(["cat", "/fsx1/results/torch/verdict.json"]))["collectives"]
    assert one["engine"].startswith("torch 2.") and one["engine"].endswith(" backend=gloo")
    assert [(row["bytes"], row["wrong"]) for row in one["rows"]] == [(256 << step, 0) for step in range(9)]
    [fault] = one["faults"]
    assert "does not show that NCCL used EFA" in fault
    log = lab.output(["cat", "/fsx1/results/torch/alltoall.txt"])
    ranks = re.findall(r"(?m)^#  Rank (\d+) on (\S+) device (\d)", log)
    nodes = sorted({node for _, node, _ in ranks})
    assert sorted((int(rank), node, int(gpu)) for rank, node, gpu in ranks) == [
        (rank, nodes[rank // 8], rank % 8) for rank in range(16)
    ]


def test_pair_test_names_the_slow_gpu_of_the_slow_node(lab: Laboratory, jobs: str) -> None:
    """Ranks of both nodes start; the figures are those of a program whose slow GPU is number 5 of one node."""
    slow = "gpu-queue-dy-p5e-3"
    program = f"""#!/bin/bash
    [[ "$NCCL_TESTS_SPLIT" == "MOD $((SLURM_NTASKS / 2))" ]] || exit 1
    [[ "$SLURM_PROCID" == 0 ]] || exit 0
    rate=50
    names=" $(scontrol show hostnames "$SLURM_STEP_NODELIST" | xargs) "
    [[ "$names" != *" {slow} "* || ",$CUDA_VISIBLE_DEVICES," != *,5,* ]] || rate=37.5
    echo "1073741824 134217728 float none -1 10738 100.0 $rate 0 10738 100.0 $rate N/A"
    """
    for name in ("all_reduce", "alltoall"):
        lab.write(f"/fsx1/pairs/{name}_perf", program, mode=0o755)
    options = "--nodes 4 --binaries /fsx1/pairs --mpi none --results /fsx1/results/pairs"
    output = submit(lab, f"{jobs}/pair-test.sbatch {options}", state="FAILED")
    assert "nccl-tests: 4 nodes, 6 pairs in 3 of at most 4 rounds" in output
    [fault] = json.loads(lab.output(["cat", "/fsx1/results/pairs/verdict.json"]))["faults"]
    assert (fault["kind"], fault["nodes"], fault["found"], fault["gpus"]) == ("node", [slow], 37.5, {"5": 37.5})


def test_gpu_burn_names_the_slow_gpu_and_the_node_that_hangs(lab: Laboratory, jobs: str) -> None:
    """A stand-in of Python answers with the figures of two real GPUs, on one node with those of a slow one."""
    slow, hung = "gpu-queue-dy-p5e-2", "gpu-queue-dy-p5e-3"
    outputs = Path(__file__).parent / "gpu_burn"
    lab.write("/fsx1/burn/all_reduce", (outputs / "all_reduce.txt").read_text())
    for name, node in (("as-they-are", "gpu-queue-dy-p5e-1"), ("loaded", slow)):
        _, text = (outputs / f"{name}.txt").read_text().splitlines()
        gpus = [
            {**gpu, "index": str(one * 2 + two)} for one in range(4) for two, gpu in enumerate(json.loads(text)["gpus"])
        ]
        gpus[2:] = [{**gpu, "tflops": 660.0, "gb_s": 4268.0} for gpu in gpus[2:]]
        lab.write(f"/fsx1/burn/{node}", json.dumps({"gpus": gpus}))
    program = f"""#!/bin/bash
    [[ "$1" != */torch_collectives.py || "$MASTER_ADDR" != "$SLURMD_NODENAME" || "$SLURM_NTASKS" != 8 ]] ||
      exec cat /fsx1/burn/all_reduce
    [[ "$1 $2 $3 $4" == */gpu_burn.py\\ measure\\ --seconds\\ 6 ]] || exit 1
    [[ "$SLURMD_NODENAME" != {hung} ]] || exec sleep 3600
    cat "/fsx1/burn/$SLURMD_NODENAME"
    """
    lab.write("/fsx1/burn/python", program, mode=0o755)
    options = "--nodes 3 --seconds 6 --limit 20 --python /fsx1/burn/python --results /fsx1/results/burn"
    output = submit(lab, f"{jobs}/gpu-burn.sbatch {options}", state="FAILED")
    verdict = json.loads(lab.output(["cat", "/fsx1/results/burn/verdict.json"]))
    assert (verdict["nodes"], verdict["gpus"]) == (3, 16), output
    faults = [(fault["kind"], fault["nodes"], fault["text"].split(" (")[0]) for fault in verdict["faults"]]
    assert faults == [("silent", [hung], "did not answer: # srun ended with status 124"), ("gpu", [slow], "GPU 1")]
    assert verdict["unasked"] == {"nvbandwidth: not there": 3, "dcgmi: not there": 3}


def test_nccl_tests_run_as_16_ranks_and_are_judged(lab: Laboratory, jobs: str) -> None:
    """A stand-in for all_reduce_perf that answers with a genuine run's fall-back to TCP, from the first of 16 ranks."""
    genuine = (Path(__file__).parent / "nccl" / "tcp-all_reduce.txt").read_text()
    lab.write("/fsx1/fake/answer", genuine)
    script = '#!/bin/sh\necho "rank $PMIX_RANK net=$NCCL_NET provider=$FI_PROVIDER if=$NCCL_SOCKET_IFNAME" >&2\n'
    script += '[ "$PMIX_RANK" != 0 ] || cat /fsx1/fake/answer\n'
    lab.write("/fsx1/fake/all_reduce_perf", script, mode=0o755)
    options = "--nodes 2 --tests all_reduce --binaries /fsx1/fake --results /fsx1/results/tcp"
    output = submit(lab, f"{jobs}/nccl-tests.sbatch {options}", state="FAILED")
    assert "NCCL fell back to TCP" in output
    assert "GB/s at 1 GiB, floor 250" in output
    log = lab.output(["cat", "/fsx1/results/tcp/all_reduce.txt"])
    ranks = sorted(int(line.split()[1]) for line in log.splitlines() if line.startswith("rank "))
    assert ranks == list(range(16))
    assert log.count("net=OFI provider=efa if=^docker,lo,veth") == 16


def test_a_data_set_is_loaded_compared_and_staged(lab: Laboratory, jobs: str, tmp_path: Path) -> None:
    """As `trainyard data push` wrote it; without `lfs`, because the laboratory has no Lustre."""
    text = b"text\n" * 100
    (tmp_path / "a.txt").write_bytes(text)
    made = manifest.new("corpus", {"a.txt": manifest.read_file(tmp_path / "a.txt")})
    folder = "/fsx1/datasets/corpus"
    lab.run(["mkdir", "-p", folder], user="root")
    lab.write(f"{folder}/{manifest.MANIFEST}", made.text(), user="root")
    wrong = lab.run([f"{jobs}/train-torchrun.sbatch", "--stage", "absent", "--", "true"], check=False)
    assert wrong.returncode == 64
    assert "the folder /fsx1/datasets/absent does not exist. Its parent folder contains:" in wrong.stderr
    assert (
        "'..' is not a data set: give its name"
        in lab.run([f"{jobs}/data-stage.sbatch", "--data", ".."], check=False).stderr
    )
    line = [f"{jobs}/train-model.sbatch", "--model", "model1", "--stage", "absent", "--", "true"]
    assert "--stage 'absent': the folder /fsx1/datasets/absent does not exist" in lab.run(line, check=False).stderr
    output = submit(lab, f"{jobs}/data-stage.sbatch --data corpus --nodes 2 --wait 1", state="FAILED")
    assert "FAILED: a.txt: missing" in output
    lab.write(f"{folder}/a.txt", text.decode(), user="root")
    output = submit(lab, f"{jobs}/data-stage.sbatch --data corpus --nodes 2")
    assert output.count(f"in {folder} compared") == 2
    assert "every file is as the manifest says" in output
    lab.write(
        "/fsx1/show.py", "import os; print(os.environ['DATA_DIR'], os.listdir(os.environ['DATA_DIR']))", user="root"
    )
    output = submit(
        lab,
        f"{jobs}/train-torchrun.sbatch --nodes 2 --procs 1 --stage corpus/ -- /fsx1/show.py",
        {"PYTHONPATH": NODE_TORCH},
    )
    assert len(re.findall(r"/scratch/data-\d+/corpus-[0-9a-f]{12} \[.*'a.txt'", output)) == 2

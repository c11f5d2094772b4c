"""Jobs that share a node see their own GPUs, CPUs and memory only; their web servers, their own user only."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from local.slurm import Laboratory
from tests.jobs.conftest import NODE_TORCH
from tests.jobs.test_on_slurm import image, submit, writable
from tests.jobs.test_prepare_data import TEXTS, expected, tokenizer

__all__ = ["image", "tokenizer", "writable"]
NODE = "gpu-queue-dy-p5e-7"
# One line of JSON: what the job can open and sees. Without a driver, a GPU that may be opened is ENXIO.
PROBE = """#!/usr/bin/python3
import errno, json, os, subprocess, sys, time
def opens(number):
    try:
        os.close(os.open(f"/dev/nvidia{number}", os.O_RDWR))
    except OSError as error:
        return error.errno == errno.ENXIO
    return True
listed = subprocess.run(["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"], capture_output=True, text=True)
folder, jobs = sys.argv[1], int(sys.argv[2])
found = {"opens": [n for n in range(8) if opens(n)], "uuids": listed.stdout.split(),
         "cpus": int(os.environ["SLURM_CPUS_ON_NODE"]), "node": os.environ["SLURMD_NODENAME"],
         "processes": int(os.environ["NPROC_PER_NODE"]), "threads": int(os.environ["OMP_NUM_THREADS"])}
with open(f"{folder}/.{os.environ['SLURM_JOB_ID']}", "w") as file:
    json.dump(found, file)
os.rename(file.name, f"{folder}/{os.environ['SLURM_JOB_ID']}")
# All of them run at the same time, or none ends.
while len([name for name in os.listdir(folder) if name[0] != "."]) < jobs:
    time.sleep(0.2)
"""
# In the place of Python: only the program that torchrun would start, without the watchdog's rank.py.
LAUNCHER = '#!/bin/bash\nwhile [[ "$1" != -- ]]; do shift; done\nshift 2\nexec "$@"\n'


@pytest.mark.parametrize("sizes", [(4, 4), (2, 3, 3)])
def test_jobs_share_the_gpus_of_a_node(lab: Laboratory, jobs: str, sizes: tuple[int, ...]) -> None:
    folder = f"/fsx1/sharing/{len(sizes)}"
    lab.write("/fsx1/sharing/probe", PROBE, mode=0o755)
    lab.write("/fsx1/sharing/python", LAUNCHER, mode=0o755)
    lab.run(["mkdir", "-p", folder])
    line = ["sbatch", "--parsable", f"--nodelist={NODE}", "--output=/fsx3/%x-%j.out"]
    program = ["--python", "/fsx1/sharing/python", "--", "/fsx1/sharing/probe", folder, str(len(sizes))]
    started = [
        lab.run([*line, f"--gpus={size}", f"{jobs}/train-small.sbatch", *program], env={"TRAINYARD_JOBS": jobs})
        for size in sizes
    ]
    found: list[dict[str, Any]] = []
    for answer, size in zip(started, sizes, strict=True):
        job = answer.stdout.strip()
        record = lab.wait_for_job(job, states=("COMPLETED",), seconds=120)
        found.append(json.loads(lab.output(["cat", f"{folder}/{job}"])))
        assert record["TRES"].split(",")[:2] == [f"cpu={21 * size}", f"mem={10376 * 21 * size}M"]
        assert (found[-1]["cpus"], found[-1]["processes"], found[-1]["threads"]) == (21 * size, size, 21)
    assert {one["node"] for one in found} == {NODE}
    uuids = [one["uuids"] for one in found]
    assert [len(one) for one in uuids] == list(sizes) and len({uuid for one in uuids for uuid in one}) == 8
    if "task/cgroup" in lab.output("scontrol show config"):
        assert sorted(gpu for one in found for gpu in one["opens"]) == list(range(8))
        assert [len(one["opens"]) for one in found] == list(sizes)


def test_what_sbatch_gave_is_not_what_the_option_says(lab: Laboratory, jobs: str) -> None:
    line = f"sbatch --gpus=1 {jobs}/train-small.sbatch --gpus 2"
    output = submit(lab, line, {"TRAINYARD_JOBS": jobs}, "FAILED")
    assert "--gpus 2, but Slurm gave this job 1: start the file itself, or sbatch --gpus=2" in output


def test_an_interactive_shell(lab: Laboratory, jobs: str, image: str) -> None:
    script = f"printf 'tty; nvidia-smi -L; exit 3\\n' | script -qec '{jobs}/shell.sh --gpus 2' /dev/null"
    done = lab.run(["bash", "-c", script], check=False)
    assert done.returncode == 3 and re.search(r"(?m)^/dev/pts/\d", done.stdout), done.stdout
    assert done.stdout.count("NVIDIA H200 (simulated)") == 2
    line = [f"{jobs}/shell.sh", "--gpus", "0", "--cpus", "3", "--", "bash", "-c"]
    found = lab.output([*line, 'echo "${SLURM_CPUS_PER_TASK}, GPUs ${SLURM_GPUS_ON_NODE:-}${CUDA_VISIBLE_DEVICES:-}"'])
    assert found.strip() == "3, GPUs"
    scratch = lab.plan.compute[0].scratch
    look = f"grep -c ' {scratch} ' /proc/mounts; ls /dev/infiniband | wc -l"
    inside = [f"{jobs}/shell.sh", "--gpus", "0", "--cpus", "1", "--image", image, "--", "sh", "-c", look]
    assert lab.output(inside).split() == ["1", "32"]
    refused = lab.run([f"{jobs}/shell.sh", "--output", "x"], check=False)
    assert refused.returncode == 64 and "a shell writes to your terminal" in refused.stderr


# In the place of Python with jupyterlab 4.6.6 or tensorboard 2.21.0: a socket of mode 600 at the path given.
SERVER = """#!/usr/bin/python3
import http.server, os, socketserver, sys
words = " ".join(sys.argv[1:])
path = next(word.split("=")[-1] for word in sys.argv if word.endswith("/socket"))
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        known = self.path.endswith(os.environ.get("JUPYTER_TOKEN", ""))
        self.send_response(200 if known else 403)
        self.end_headers()
        self.wfile.write(("simulated: " + words).encode())
    def address_string(self):
        return "-"
os.umask(0o177)
socketserver.UnixStreamServer(path, Answer).serve_forever()
"""
WORDS = {
    "notebook": "-m jupyterlab --no-browser --allow-root --ServerApp.root_dir=/home/ubuntu --ServerApp.sock={socket} "
    "--ServerApp.sock_mode=0600 --KernelManager.transport=ipc",
    "tensorboard": "{jobs}/lib/tensorboard_socket.py /fsx3/logs {socket}",
}


@pytest.fixture
def server(lab: Laboratory, jobs: str, request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """A running server: its job, and the job's output up to now."""
    lab.write("/fsx1/sharing/server", SERVER, mode=0o755)
    line = f"{jobs}/{request.param}.sbatch --output /fsx3/%x-%j.out --python /fsx1/sharing/server"
    job = lab.run(line).stdout.split()[-1]
    file = f"/fsx3/{request.param}-{job}.out"
    try:
        lab.wait(lambda: "End it:" in lab.run(["cat", file], check=False).stdout, f"the line of {file}", seconds=120)
        yield job, lab.output(["cat", file])
    finally:
        lab.run(["scancel", job])


@pytest.mark.parametrize("server", ["notebook", "tensorboard"], indirect=True)
def test_only_its_user_reaches_a_server(lab: Laboratory, jobs: str, server: tuple[str, str]) -> None:
    job, output = server
    name = "notebook" if "notebook-" in output else "tensorboard"
    [words] = [shlex.split(line) for line in output.splitlines() if line.startswith("  ssh ")]
    port, link = words[words.index("-L") + 1].split(":")
    socket = words[-2].removeprefix(f"{link}:")
    assert re.fullmatch(rf"/home/ubuntu/.trainyard-{name}-{job}.sock", link)
    # The outer ssh, whose command is the inner one, as OpenSSH reads them.
    outer, inner = words[: words.index("-N") - 1], words[words.index("-N") - 1 :]
    for one, forward in ((outer, f"localforward {port} {link}"), (inner, f"localforward {link} {socket}")):
        line = [one[0], "-G", *(word.replace("~/.ssh/trainyard/jakarta.conf", "/dev/null") for word in one[1:])]
        known = subprocess.run(line, capture_output=True, text=True, check=True).stdout
        assert forward in known.replace("[", "").replace("]", "")
    url = lab.output(["cat", link.replace(".sock", ".url")])
    get = ["srun", f"--jobid={job}", "--overlap", "curl", "-sS", "--unix-socket", socket]
    version = lab.output(["readlink", "-f", jobs])
    assert lab.output([*get, url]) == "simulated: " + WORDS[name].format(socket=socket, jobs=version)
    if name == "notebook":
        assert "token=" in url and "token=" not in output
        assert "403" in lab.output([*get, "-o", "/dev/null", "-w", "%{http_code}", url[:-1]])
    node = words[-1]
    other = lab.run(["curl", "-sS", "--unix-socket", socket, url], node=node, user="ada", check=False)
    assert other.returncode == 7, other.stdout
    assert lab.run(["cat", link.replace(".sock", ".url")], user="ada", check=False).returncode != 0
    lab.run(["scancel", job])
    gone = partial(lab.run, ["ls", str(Path(socket).parent)], node=node, user="root", check=False)
    lab.wait(lambda: gone().returncode != 0, f"the end of {socket}", seconds=120)
    assert lab.run(["ls", link.replace(".sock", ".url")], check=False).returncode != 0


def test_a_server_that_the_image_lacks(lab: Laboratory, jobs: str) -> None:
    output = submit(lab, f"{jobs}/tensorboard.sbatch", state="FAILED")
    assert "tensorboard_socket.py: /usr/bin/python3 lacks tensorboard: give --image or --python" in output
    assert "the server ended before it answered" in output and "Traceback" not in output


def test_data_is_prepared_on_two_nodes_and_trained_on_two_gpus(lab: Laboratory, jobs: str, tokenizer: Path) -> None:
    """A bad line fails the job by file and line; corrected and submitted again, it goes on and passes."""
    lab.write("/fsx1/sharing/tokenizer.json", tokenizer.read_text())
    lines = [json.dumps({"text": text}) for text in TEXTS]
    lab.write("/fsx1/sharing/in/a.jsonl", "\n".join(lines[:20]))
    lab.write("/fsx1/sharing/in/b.jsonl", "\n".join([*lines[20:], '{"text": 7}']))
    options = "--nodes 2 --cpus 1 --tokenizer /fsx1/sharing/tokenizer.json --shards /fsx1/sharing/tokens"
    line = f"{jobs}/data-prepare.sbatch {options} -- /fsx1/sharing/in"
    env = {"PYTHONPATH": NODE_TORCH}
    output = submit(lab, line, env, "FAILED")
    assert "/fsx1/sharing/in/b.jsonl:21: no text under 'text' (found: text)" in output
    assert "'work' ended with status 1" in output
    assert lab.run(["ls", "/fsx1/sharing/tokens"], check=False).returncode != 0
    lab.write("/fsx1/sharing/in/b.jsonl", "\n".join(lines[20:]))
    assert "passed: /fsx1/sharing/tokens" in submit(lab, line, env)
    manifest = json.loads(lab.output(["cat", "/fsx1/sharing/tokens/manifest.json"]))
    assert manifest["tokens"] == len(expected(tokenizer, TEXTS))
    again = lab.run(line.split(), check=False)
    assert again.returncode == 64 and "has token shards already: give a new folder" in again.stderr
    # The trainer reads it, on two GPUs of a node.
    env["OMP_NUM_THREADS"] = "1"
    options = "--gpus 2 --experiment two -- --data /fsx1/sharing/tokens --steps 2"
    output = submit(lab, f"{jobs}/train-small.sbatch {options}", env)
    assert "1 nodes x 2 processes" in output and "passed: two is done" in output

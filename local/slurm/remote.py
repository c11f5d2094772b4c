"""Run scripts on head nodes, in place of Systems Manager; a cluster's laboratory is started if needed.

A script runs as the agent runs it: as root, from a file, by sh unless its first line names another interpreter.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import traceback
from dataclasses import replace
from pathlib import Path

from local.emulator.processes import aws_settings
from local.slurm import Laboratory, Plan, bootstrap, host, make
from local.slurm.plan import MOST_NODES, PLAN_FILE, Timeouts
from ops.problem import Problem
from settings import Environment, Faults, load
from trainyard import cluster_bundle
from trainyard.cluster_people import PEOPLE

ROOT = Path(__file__).resolve().parents[2]
FIGURES = Path(__file__).parent / "figures"
FILES, LABORATORIES = "environment-files", "laboratories"
"""In the emulator's state folder: a file per cluster with the path of its environment file; a folder per laboratory."""
SCRIPT_LIMIT_S = 300
NODES_EACH = "TRAINYARD_LAB_NODES"
"""The variable with the most nodes of each compute resource; 2 without it."""
# As large as the largest instance type's disks; memory is only used for content.
SCRATCH_MIB = 64 << 20
# Longer than a test's laboratory has: a busy machine must not set nodes DOWN.
TIMEOUTS = Timeouts(slurmd_s=30, message_s=20)
COLLECTIVES = {
    **{"all_reduce": 450, "all_gather": 380, "reduce_scatter": 380},
    **{"broadcast": 200, "reduce": 200, "alltoall": 45},
}
"""Simulated GB/s with the largest messages, close to published figures of two P5."""
_RUN = """
file="$(mktemp -d)/_script.sh"
cat >"$file" && chmod 700 "$file" || exit 1
sh -c "$file"
status=$?
rm -r "${file%/*}"
exit "$status"
"""
# What an import leaves, with busybox and the stand-ins: the emulated AWS runs no build, so there is nothing to import.
_IMAGE = """
set -eu
root="$(mktemp -d)"
chmod 755 "$root"
mkdir -p "$root"/{bin,dev,etc/lab,opt/nccl-tests/build,proc,run,sys,tmp,usr/local/bin,workspace}
for name in $(busybox --list); do ln -sf busybox "$root/bin/$name"; done
cp --remove-destination /bin/busybox "$root/bin/busybox"
cp /opt/nccl-tests/build/*_perf "$root/opt/nccl-tests/build"
cp /etc/lab/ior /etc/lab/mdtest "$root/usr/local/bin"
cp /etc/lab/figures.json "$root/etc/lab"
echo PATH=/usr/local/bin:/usr/bin:/bin >"$root/etc/environment"
mksquashfs "$root" "$1.new" -all-root -noappend -no-progress -quiet
mv "$1.new" "$1"
rm -rf "$root"
"""


def remember(state: Path, environment: Environment, file: Path) -> None:
    """Record the environment file of an emulated cluster."""
    folder = state / FILES
    folder.mkdir(parents=True, exist_ok=True)
    (folder / environment.cluster_name).write_text(str(file), encoding="utf-8")


def end_all(state: Path) -> None:
    """End all laboratories of an emulator."""
    for folder in (state / LABORATORIES).glob("*"):
        if folder.is_dir():
            Laboratory(folder).down()


def environment_of(state: Path, cluster: str, account: str) -> Environment:
    """The environment of an emulated cluster: the recorded one, or the shipped one with its name.

    Raises:
        Problem: there is none.
    """
    if (noted := state / FILES / cluster).is_file():
        return load(Path(noted.read_text(encoding="utf-8")))
    for file in sorted((ROOT / "environments").glob("*.yaml")):
        try:
            environment = load(file)
        except Faults:
            continue
        if environment.cluster_name == cluster and environment.account == account:
            return environment
    raise Problem(f"no file under environments/ describes the cluster {cluster} of account {account}")


def plan_of(environment: Environment) -> Plan:
    """At most two nodes of every compute resource, or as many as TRAINYARD_LAB_NODES says, and one login node."""
    given = os.environ.get(NODES_EACH, "2")
    if not given.isdecimal() or not 1 <= int(given) <= MOST_NODES:
        raise Problem(f"{NODES_EACH} is '{given}'; allowed: 1 to {MOST_NODES}")
    counts = {
        f"{queue.name}/{compute.name}": min(int(given), compute.max)
        for queue in environment.cluster.queues
        for compute in queue.compute
    }
    pool = environment.cluster.login_nodes
    logins = min(1, pool.count) if pool else 0
    return make(environment, counts=counts, scratch_mib=SCRATCH_MIB, timeouts=TIMEOUTS, logins=logins)


def ensure(state: Path, cluster: str, account: str) -> Laboratory:
    """The running laboratory of a cluster; one with another environment or other assets is replaced.

    Other people replace nothing: they change without an update of the cluster.
    """
    plan = plan_of(environment_of(state, cluster, account))
    folder = state / LABORATORIES / f"{account}-{cluster}"
    laboratory = Laboratory(folder)
    kept = replace(plan, people=plan.people and {"has_users": plan.people["has_users"]})
    wanted = hashlib.sha256(PLAN_FILE.dump_json(kept) + cluster_bundle.build().sha256.encode()).hexdigest()
    mark = folder.with_suffix(".sha256")
    with host.exclusive(folder.with_suffix(".lock")):
        if laboratory.running and mark.is_file() and mark.read_text(encoding="utf-8") == wanted:
            return laboratory
        host.install()
        laboratory.up(plan, before_slurmd=lambda: bootstrap.all_nodes(laboratory))
        _give_figures(laboratory)
        if image := plan.environment.validation.image:
            folder = laboratory.plan.settings()["folders"]["images"]  # type: ignore[index]
            laboratory.run(["bash", "-c", _IMAGE, "image", f"{folder}/{image}.sqsh"])
        mark.write_text(wanted, encoding="utf-8")
    return laboratory


def fetch_people(laboratory: Laboratory, state: Path, account: str) -> None:
    """Copy `cluster/people.json` of the emulated S3 to the laboratory's bucket, which a real node would read there."""
    import boto3  # not at the top: for most commands it would be half of their CPU time

    environment = laboratory.plan.environment
    given = json.loads((state / "emulator.json").read_text(encoding="utf-8"))
    os.environ.update(aws_settings(given["port"], account, environment.region))  # not the user's own files
    ssm, s3 = boto3.client("ssm"), boto3.client("s3")
    name = f"/trainyard/{environment.name}/buckets/assets"
    try:
        bucket = ssm.get_parameter(Name=name)["Parameter"]["Value"]
        content = s3.get_object(Bucket=bucket, Key=PEOPLE)["Body"].read()
    except (ssm.exceptions.ParameterNotFound, s3.exceptions.NoSuchKey):
        return  # nothing is published
    (laboratory.path(f"{bootstrap.BUCKETS}/{laboratory.plan.buckets['assets']}") / PEOPLE).write_bytes(content)


def run(laboratory: Laboratory, script: str) -> dict[str, object]:
    """Run a script on the head node as Systems Manager's agent does."""
    try:
        done = laboratory.run(["bash", "-c", _RUN], user="root", check=False, timeout=SCRIPT_LIMIT_S, stdin=script)
    except subprocess.TimeoutExpired:
        return {"exit": 137, "stdout": "", "stderr": f"not ended after {SCRIPT_LIMIT_S} s"}
    return {"exit": done.returncode, "stdout": done.stdout, "stderr": done.stderr}


def _give_figures(laboratory: Laboratory) -> None:
    """Install the stand-ins of nccl-tests, fio and torch; those of IOR and mdtest are for images only."""
    mounts = laboratory.plan.settings()["mounts"]
    figures = {
        "mounts": {mount["path"]: mount["throughput_mb_s"] for mount in mounts},  # type: ignore[attr-defined]
        "collectives": COLLECTIVES,
        "provider": "efa",
    }
    programs = {"/usr/local/bin/fio": "fio", "/etc/lab/ior": "ior", "/etc/lab/mdtest": "mdtest"}
    programs["/usr/lib/python3/dist-packages/torch.py"] = "torch"
    programs |= {f"/opt/nccl-tests/build/{name}_perf": "collective_perf" for name in COLLECTIVES}
    for node in (laboratory.plan.head, *laboratory.plan.compute):
        laboratory.write("/etc/lab/figures.json", json.dumps(figures, indent=1), node=node.name, user="root")
        for path, source in programs.items():
            text = (FIGURES / source).read_text(encoding="utf-8")
            laboratory.write(path, text, node=node.name, user="root", mode=0o755)


def answer(state: Path, cluster: str, account: str, script: str) -> dict[str, object]:
    """A script's exit, stdout and stderr; or unavailable, with the reason."""
    os.umask(0o022)  # the agent's; Slurm gives a job the umask of its submission, and the emulator's is private
    try:
        laboratory = ensure(state, cluster, account)
        if laboratory.plan.people is not None:
            fetch_people(laboratory, state, account)
        return run(laboratory, script)
    except (Problem, Faults, OSError, subprocess.SubprocessError) as problem:
        return {"unavailable": str(problem)}
    except Exception as error:  # the caller gets the reason of whatever it is, and the log the place
        traceback.print_exc()
        return {"unavailable": repr(error)}


def serve(state: Path, descriptor: int) -> None:
    """Answer each connection that a socket passes on in a fork, which has the imports already (0.3 s of CPU time).

    A connection gives the arguments of answer() and `limit_s` as a line of JSON, and takes the result. The end of the
    socket ends this. Changes of the code need a new emulator.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the processes
    with socket.socket(fileno=descriptor) as requests:
        while passed := socket.recv_fds(requests, 1, 1)[1]:
            with socket.socket(fileno=passed[0]) as connection:
                if os.fork() == 0:
                    requests.close()
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    given = json.loads(connection.makefile().readline())
                    signal.alarm(given.pop("limit_s"))
                    connection.sendall(json.dumps(answer(state, **given)).encode())
                    return


if __name__ == "__main__":
    serve(Path(sys.argv[1]).resolve(), int(sys.argv[2]))

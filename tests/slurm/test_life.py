"""A laboratory leaves nothing behind: after down, a crash, a restart, or two at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cli import main
from local.slurm import Laboratory, base, bootstrap, host, make, namespaces
from local.slurm.plan import PLAN_FILE
from ops.problem import Problem
from settings import load
from tests.slurm import registry
from tests.slurm.conftest import ENVIRONMENT, INSTALL, ROOT, plan_of, start


def traces(laboratory: Laboratory) -> list[str]:
    """Whatever of a laboratory this host still shows: processes, mounts, interfaces, control groups, files."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            groups = (folder / "cgroup").read_text()
        except OSError:
            continue
        if str(laboratory.state).encode() in words or laboratory.group in groups:
            found.append(f"process {folder.name}: {b' '.join(words).decode()}")
    found += [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(laboratory.state) in line]
    found += [f"control group {path}" for path in Path("/sys/fs/cgroup").glob(f"*/{laboratory.group}")]
    if laboratory.state.exists():
        found.append(f"files {laboratory.state}")
    return found


def interfaces() -> set[str]:
    """The host's network interfaces."""
    return {path.name for path in Path("/sys/class/net").iterdir()}


def test_two_at_once_up_again_and_down(own_lab: Laboratory, tmp_path: Path) -> None:
    before = interfaces()
    other = Laboratory(tmp_path / "other")
    try:
        start(own_lab, plan_of(1))
        start(other, plan_of(1))
        own_lab.write("/fsx/mark", "own\n", user="root")
        assert other.run(["test", "-e", "/fsx/mark"], check=False).returncode == 1
        first = own_lab.pid()
        start(own_lab, plan_of(1))
        assert own_lab.pid() != first
        assert own_lab.run(["test", "-e", "/fsx/mark"], check=False).returncode == 1, "a new one is empty"
        assert own_lab.output(["srun", "hostname"]) == "gpu-dy-p5-1"
        assert other.output(["srun", "hostname"]) == "gpu-dy-p5-1"
        assert interfaces() == before
    finally:
        own_lab.down()
        other.down()
    assert traces(own_lab) == []
    assert traces(other) == []
    assert interfaces() == before
    own_lab.down()


def test_nothing_survives_a_killed_supervisor(own_lab: Laboratory) -> None:
    start(own_lab, plan_of(1))
    pid = namespaces.supervisor(own_lab.state)
    assert pid
    os.kill(pid, signal.SIGKILL)
    own_lab.down()
    assert traces(own_lab) == []


def test_what_fails_to_start_leaves_nothing(own_lab: Laboratory) -> None:
    def refuse() -> None:
        raise Problem("the bootstrap refused")

    with pytest.raises(Problem, match="the bootstrap refused"):
        own_lab.up(plan_of(1), before_slurmd=refuse)
    assert not own_lab.running
    own_lab.down()
    assert traces(own_lab) == []


def test_without_control_groups(own_lab: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nodes can have no control groups of version 1, Slurm goes by parents and CUDA_VISIBLE_DEVICES."""
    monkeypatch.setattr(host, "controllers", tuple)
    start(own_lab, plan_of(2))
    assert "proctrack/linuxproc" in own_lab.output("scontrol show config")
    line = ["srun", "-N2", "--ntasks-per-node=8", "--gpus-per-task=1", "nvidia-smi", "-L"]
    uuids = [row.rpartition(" ")[2] for row in own_lab.output(line).splitlines()]
    assert len(uuids) == len(set(uuids)) == 16


@pytest.mark.usefixtures("lab_machine")
def test_the_command_line_and_the_bootstrap(tmp_path: Path) -> None:
    laboratory = Laboratory(tmp_path / "cli")

    def run(command: str, *words: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "cli", "lab", command, "--state", str(laboratory.state), *words]
        return subprocess.run(
            line, cwd=ROOT, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=300
        )

    assert "No laboratory runs in" in run("status").stderr
    try:
        up = run("up", str(ENVIRONMENT), "--count", "gpu/p5=2", "--count", "cpu/c7i=1")
        assert up.returncode == 0, up.stderr
        status = run("status").stdout
        assert "gpu-dy-p5-2" in status
        assert "cpu-dy-c7i-1" in status
        job = run(
            "run", "--", "srun", "-N2", "--gpus-per-node=8", "bash", "-lc", "echo $DATA_DIR; ls -d $CHECKPOINTS_DIR"
        )
        assert sorted(job.stdout.splitlines()) == ["/fsx/checkpoints"] * 2 + ["/fsx/data"] * 2, job.stderr
        assert run("run", "--", "bash", "-c", "exit 7").returncode == 7
        assert run("up", "--count", "gpu/none=1").returncode == 4
        # The replaced node gets the bootstrap too.
        laboratory.kill("gpu-dy-p5-2")
        bootstrap.start(laboratory, "gpu-dy-p5-2")
        assert laboratory.output("srun -w gpu-dy-p5-2 bash -lc 'echo $LOGS_DIR'") == "/fsx/logs"
    finally:
        assert run("down").returncode == 0
    assert traces(laboratory) == []


def test_a_plan_says_what_is_wrong(tmp_path: Path) -> None:
    environment = load(ENVIRONMENT)
    with pytest.raises(Problem, match=r"no compute resource 'gpu/p6'.*gpu/p5, cpu/c7i"):
        make(environment, counts={"gpu/p6": 1})
    with pytest.raises(Problem, match="1 to 250 compute nodes, not 0"):
        make(environment, nodes=0)
    with pytest.raises(Problem, match="there is no laboratory in"):
        Laboratory(tmp_path / "none").output("true")


def test_a_folder_without_a_laboratory_is_not_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    for words in (["--state", str(tmp_path)], ["--name", "../.."], ["--name", ".."], ["--name", ""]):
        assert main(["lab", "down", *words]) == 4
    said = capsys.readouterr().err
    assert f"{tmp_path} has other files and no laboratory; give an empty folder" in said
    assert "--name '../..' is not the name of a folder" in said
    assert (tmp_path / "file").exists()


@pytest.mark.parametrize("file", sorted(ENVIRONMENT.parent.glob("*.yaml")), ids=lambda file: file.stem)
def test_a_plan_survives_its_file(file: Path) -> None:
    plan = make(load(file), nodes=3, binds={"/opt/torch": "/somewhere"}, slurm={"Epilog": ""}, powered_down=True)
    read = PLAN_FILE.validate_json(PLAN_FILE.dump_json(plan))
    assert read.environment.model_dump() == plan.environment.model_dump()
    assert replace(read, environment=plan.environment) == plan  # the files next to an environment are not in its JSON


def test_packages_are_one_list_with_suites() -> None:
    bookworm, trixie = base.packages("bookworm"), base.packages("trixie")
    assert "libpmix2" in bookworm and "libpmix2t64" not in bookworm
    assert "slurm-wlm-mysql-plugin" in trixie and "slurm-wlm-mysql-plugin" not in bookworm
    assert base.folder("bookworm") != base.folder("trixie")


@pytest.mark.lab  # on Debian
def test_the_installation_says_when_it_cannot(tmp_path: Path) -> None:
    """Without the commands, and without apt-get, it ends with the status for "not here" and names what is missing."""
    for name in ("bash", "id", "sort", "tr"):
        (tmp_path / name).symlink_to(Path("/usr/bin") / name)
    script = INSTALL.read_text().replace(":/usr/sbin:/sbin", "")
    result = subprocess.run(
        ["/bin/bash", "-s"], input=script, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert result.returncode == 69
    assert "mmdebstrap" in result.stderr


@pytest.mark.lab  # it mounts, as root
def test_a_base_that_takes_too_long_leaves_no_mount_to_delete_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fake mmdebstrap mounts a folder of the host into the base, as the genuine one does /dev, and never ends."""
    kept = tmp_path / "of-the-host"
    kept.mkdir()
    (kept / "file").write_text("")
    fake = tmp_path / "bin" / "mmdebstrap"
    fake.parent.mkdir()
    fake.write_text(
        f'#!/bin/sh\nmkdir -p "{tmp_path}/base/dev" && mount --bind "{kept}" "{tmp_path}/base/dev"\nsleep 60\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(base, "LIMIT_S", 2)
    with pytest.raises(Problem, match="timed out after 2 seconds"):
        base._bootstrap("bookworm", tmp_path / "base")
    assert (kept / "file").exists()
    assert not (tmp_path / "base").exists()
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


def test_the_newer_slurm(own_lab: Laboratory) -> None:
    """Debian 13's Slurm, nearer to ParallelCluster's; the first run makes its base, which takes a minute."""
    plan = make(load(ENVIRONMENT), nodes=2, base="trixie")
    start(own_lab, plan, lambda: bootstrap.all_nodes(own_lab))
    assert own_lab.output(["sinfo", "--version"]).endswith("24.11.5")
    line = ["srun", "-N2", "--ntasks-per-node=8", "--gpus-per-task=1", "nvidia-smi", "-L"]
    assert len(own_lab.output(line).splitlines()) == 16
    image = registry.push(own_lab, "small", "latest", env={"WORD": "seen"})
    credentials = f"machine {plan.registry} login AWS password $(aws ecr get-login-password)\n"
    own_lab.write("/home/ubuntu/.config/enroot/.credentials", credentials, mode=0o600)
    own_lab.run(f"cd /fsx/data && enroot import -o small.sqsh docker://AWS@{image.uri.replace('/', '#', 1)}")
    container = ["srun", "-N2", "--container-image=/fsx/data/small.sqsh", "sh", "-c", "echo $WORD"]
    assert own_lab.output(container).split() == ["seen", "seen"]
    own_lab.wait(lambda: "COMPLETED" in own_lab.output("sacct -nXP -o state"), "a completed job in sacct")

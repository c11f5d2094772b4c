"""The step metrics, its programs, the labels of jobs, and that none of them fails a bootstrap or a prolog."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster_assets.conftest import ASSETS, gpu_rows
from tests.cluster_assets.test_health import health, write_gpus, write_settings
from tests.stubs import fake_command

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster_assets.conftest import Node

Settings = dict[str, Any]
UNITS = ("trainyard-node-exporter", "trainyard-node-collector", "trainyard-dcgm-exporter")
AGENT = "/opt/aws/amazon-cloudwatch-agent/bin/amazon-cloudwatch-agent-ctl"
METRICS, GPU_JOBS = "/var/lib/trainyard/metrics", "/run/trainyard/gpu-jobs"


def archive(path: str) -> bytes:
    """A release's archive: one folder with the program at a path in it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        member = tarfile.TarInfo(f"release-1.0/{path}")
        member.size, member.mode = 10, 0o755
        tar.addfile(member, io.BytesIO(b"#!/bin/sh\n"))
    return buffer.getvalue()


@pytest.fixture
def monitored(node: Node, settings: Settings) -> Node:
    """A node of an environment in mode self-hosted, with a network, DCGM, an agent and Slurm's folders of scripts."""
    settings["monitoring"] = {"mode": "self-hosted"}
    node.command(
        "ip",
        'case "$*" in *route*) echo "default via 10.0.0.1 dev ens5 proto dhcp src 10.0.0.9 metric 100" ;; '
        '*) echo "2: ens5    inet 10.0.0.9/24 metric 100 brd 10.0.0.255 scope global dynamic ens5" ;; esac',
    )
    node.command("curl", 'echo "curl: (6) Could not resolve host" >&2; exit 6')
    node.command("nv-hostengine", "true")
    node.command("uname", "echo x86_64")
    for phase in ("prolog", "epilog"):
        node.path(f"/opt/slurm/etc/scripts/{phase}.d").mkdir(parents=True)
    fake_command(node.path(AGENT), 'echo "$*" >>"${FAKE}/agent-calls"\n[[ ! -e "${FAKE}/agent-fails" ]]')
    dna = json.loads(node.path("/etc/chef/dna.json").read_text())
    dna["cluster"]["log_group_name"] = "/aws/parallelcluster/local-202611231811"
    node.path("/etc/chef/dna.json").write_text(json.dumps(dna))
    pinned = json.loads((ASSETS / "monitoring/programs.json").read_text())
    for name, program in pinned.items():
        # NVIDIA's package has the program in usr/bin.
        content = archive("usr/bin/dcgm-exporter" if name == "dcgm-exporter" else name)
        for file in program["files"].values():
            file["sha256"] = hashlib.sha256(content).hexdigest()
            file["url"] = f"https://releases.example/{name}-{len(content)}.tar.gz"
        key = node.key(f"cluster/programs/{name}-{len(content)}.tar.gz")
        key.parent.mkdir(parents=True, exist_ok=True)
        key.write_bytes(content)
    (node.fake / "programs.json").write_text(json.dumps(pinned))
    node.environment["TRAINYARD_PROGRAMS_FILE"] = str(node.fake / "programs.json")
    return node


def unit(node: Node, name: str) -> str:
    file = node.path(f"/etc/systemd/system/{name}.service")
    return file.read_text() if file.exists() else ""


def step(node: Node, settings: Settings, role: str) -> str:
    """Run the step alone, which must not fail; returns its log."""
    write_settings(node, settings)
    done = subprocess.run(
        ["bash", ASSETS / "steps/metrics.sh"],
        env=os.environ | node.environment | {"TRAINYARD_ROLE": role},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stderr


def test_without_observability_nothing_happens(node: Node, settings: Settings) -> None:
    node.bootstrap(settings, role="compute-configured")
    assert not any(unit(node, name) for name in UNITS) and not node.path(METRICS).exists()
    assert "trainyard-node" not in str(node.calls("systemctl"))


def test_head_node_fetches_and_compute_node_copies(monitored: Node, settings: Settings) -> None:
    monitored.bootstrap(settings, role="head-configured")
    assert "monitoring:" not in monitored.log()
    shared = monitored.path("/shared/monitoring")
    assert len(list(shared.iterdir())) == 2, "one file of each program; all architectures are the same archive here"
    assert "--gpus 0\n" in unit(monitored, UNITS[1]) and not unit(monitored, UNITS[2])
    for phase in ("prolog", "epilog"):
        script = monitored.path(f"/opt/slurm/etc/scripts/{phase}.d/20_trainyard_job_labels")
        assert os.access(script, os.X_OK) and script.read_bytes() == (ASSETS / "monitoring/job-labels.sh").read_bytes()
    shutil.rmtree(monitored.path("/opt/trainyard/programs"))
    for name in UNITS:
        monitored.path(f"/etc/systemd/system/{name}.service").unlink(missing_ok=True)
    (monitored.fake / "aws-calls").unlink()

    monitored.bootstrap(settings, role="compute-configured")
    assert "monitoring:" not in monitored.log()
    assert "programs" not in str(monitored.calls("aws")), "80 nodes do not download the same files"
    for name, program in (("node_exporter", "node_exporter"), ("dcgm-exporter", "usr/bin/dcgm-exporter")):
        link = monitored.path(f"/opt/trainyard/programs/{name}")
        assert os.access(link, os.X_OK) and str(link.readlink()).endswith(f"/{program}")
    node_exporter, collector, dcgm = (unit(monitored, name) for name in UNITS)
    assert "--web.listen-address=10.0.0.9:9100" in node_exporter and "DynamicUser=yes" in node_exporter
    assert (
        "--address 10.0.0.9 --gpus 8\n" in collector
        and "CapabilityBoundingSet=CAP_SYSLOG CAP_DAC_READ_SEARCH" in collector
    )
    assert "--address 10.0.0.9:9400" in dcgm and f"DCGM_HPC_JOB_MAPPING_DIR={GPU_JOBS}" in dcgm
    for text in (node_exporter, collector, dcgm):
        assert "MemoryMax=" in text and "CPUQuota=" in text and str(monitored.root) not in text
    bundle = monitored.path("/opt/trainyard/current").readlink().name
    assert f" /opt/trainyard/{bundle}/monitoring/node-collector.py " in collector
    assert f"r! {METRICS}/job-*\n" in monitored.path("/etc/tmpfiles.d/trainyard-metrics.conf").read_text()


def test_second_run_changes_nothing(monitored: Node, settings: Settings) -> None:
    step(monitored, settings, "head-configured")
    before, calls = monitored.snapshot(), monitored.calls("systemctl")
    step(monitored, settings, "updated")
    assert monitored.snapshot() == before
    asked = ("is-active --quiet trainyard-", "is-enabled --quiet trainyard-")
    assert all(call.startswith(asked) for call in monitored.calls("systemctl")[len(calls) :] if "trainyard-" in call)


def test_run_after_a_failure_repairs(monitored: Node, settings: Settings) -> None:
    systemctl = (monitored.fake / "bin/systemctl").read_text()
    monitored.command("systemctl", "exit 1")
    assert "node exporter failed" in step(monitored, settings, "head-configured")
    assert unit(monitored, UNITS[0])
    (monitored.fake / "bin/systemctl").write_text(systemctl.replace("echo", '[[ "$1" != is-active ]] || exit 3\necho'))
    assert "WARNING" not in step(monitored, settings, "head-configured")
    for name in UNITS[:2]:
        assert {f"enable {name}.service", f"restart {name}.service"} <= set(monitored.calls("systemctl"))


def test_new_version_of_a_program_restarts_it(monitored: Node, settings: Settings) -> None:
    step(monitored, settings, "head-configured")
    file = monitored.fake / "programs.json"
    old = next(iter(json.loads(file.read_text())["node_exporter"]["files"].values()))
    key = monitored.key(f"cluster/programs/{old['url'].rpartition('/')[2]}")
    content = key.read_bytes() + b"\0" * 512
    key.write_bytes(content)
    new = hashlib.sha256(content).hexdigest()
    file.write_text(file.read_text().replace(old["sha256"], new))
    before = monitored.calls("systemctl")
    step(monitored, settings, "updated")
    assert f"ExecStart=/opt/trainyard/programs/{new}/node_exporter " in unit(monitored, UNITS[0])
    restart = f"restart {UNITS[0]}.service"
    assert restart in monitored.calls("systemctl")[len(before) :]


def test_a_hang_ends_with_the_time_of_the_step(monitored: Node, settings: Settings) -> None:
    monitored.command("systemctl", "exec sleep 3600")
    monitored.environment["TRAINYARD_MONITORING_SECONDS"] = "1"
    log = step(monitored, settings, "head-configured")
    assert "monitoring: node collector failed, the bootstrap continues" in log


def test_login_node_sends_logs_only(monitored: Node, settings: Settings) -> None:
    """Slurm does not know login nodes, so nothing would ask their exporters."""
    step(monitored, settings, "login-configured")
    assert not any(unit(monitored, name) for name in UNITS) and len(monitored.calls("agent")) == 1


def test_unknown_type_without_gpus(monitored: Node, settings: Settings) -> None:
    step(monitored, settings, "head-configured")
    for device in monitored.path("/dev").glob("nvidia*"):
        device.unlink()
    settings["queues"] = []
    log = step(monitored, settings, "compute-configured")
    assert "dcgm exporter" not in log and "--gpus 0\n" in unit(monitored, UNITS[1])


FAULTS: dict[str, tuple[Callable[[Node], object], str, str]] = {
    "no network": (
        lambda node: shutil.rmtree(node.key("cluster/programs")),
        "node exporter",
        "without internet access copy",
    ),
    "changed program": (
        lambda node: [file.write_bytes(b"other") for file in node.key("cluster/programs").iterdir()],
        "node exporter",
        "has SHA-256 ",
    ),
    "no address": (lambda node: node.command("ip", "true"), "node collector", "no global IPv4 address"),
    "no systemd": (lambda node: node.command("systemctl", '[[ "$*" != *trainyard-node* ]]'), "node exporter", "failed"),
    "agent refuses": (lambda node: (node.fake / "agent-fails").touch(), "cloudwatch", "refused our configuration"),
    "no prolog folder": (
        lambda node: node.path("/opt/slurm/etc/scripts/prolog.d").rmdir(),
        "prolog",
        "prolog.d is missing",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_reported_and_the_bootstrap_goes_on(monitored: Node, settings: Settings, fault: str) -> None:
    plant, part, text = FAULTS[fault]
    plant(monitored)
    log = step(monitored, settings, "head-configured")
    assert f"monitoring: {part} failed" in log and text in log


def test_node_without_dcgm(monitored: Node, settings: Settings) -> None:
    (monitored.fake / "bin/nv-hostengine").unlink()
    if shutil.which("nv-hostengine"):
        pytest.skip("this machine has DCGM")
    step(monitored, settings, "head-configured")
    log = step(monitored, settings, "compute-configured")
    assert "this AMI has no DCGM" in log and not unit(monitored, UNITS[2])
    assert unit(monitored, UNITS[0]) and "--gpus 8" in unit(monitored, UNITS[1])


def test_program_of_the_image_is_used(monitored: Node, settings: Settings) -> None:
    shutil.rmtree(monitored.key("cluster/programs"))
    own = monitored.path("/opt/trainyard/programs/node_exporter")
    own.parent.mkdir(parents=True)
    own.symlink_to("/bin/true")
    step(monitored, settings, "compute-configured")
    assert unit(monitored, UNITS[0]) and str(own.readlink()) == "/bin/true"


def test_mode_off_stops_what_ran(monitored: Node, settings: Settings) -> None:
    step(monitored, settings, "head-configured")
    step(monitored, settings, "compute-configured")
    del settings["monitoring"]
    step(monitored, settings, "compute-configured")
    assert not any(unit(monitored, name) for name in UNITS)
    assert not monitored.path(METRICS).exists() and not monitored.path(GPU_JOBS).exists()
    assert f"disable --now {UNITS[2]}.service" in monitored.calls("systemctl")
    assert monitored.calls("agent")[-1].startswith("-a remove-config")
    scripts = monitored.path("/opt/slurm/etc/scripts")
    assert list(scripts.rglob("20_*")), "only the head node writes what is shared"
    step(monitored, settings, "updated")
    assert not list(scripts.rglob("20_*"))


@pytest.mark.parametrize(("mode", "role", "gpus"), [
    ("cloudwatch", "compute-configured", True),
    ("cloudwatch", "head-configured", False),
    ("managed", "compute-configured", False),
])  # fmt: skip
def test_cloudwatch_agent(monitored: Node, settings: Settings, mode: str, role: str, gpus: bool) -> None:
    settings["monitoring"]["mode"] = mode
    step(monitored, settings, role)
    file = monitored.path("/opt/trainyard/cloudwatch-agent-trainyard.json")
    made = json.loads(file.read_text())
    [bootstrap, health] = made["logs"]["logs_collected"]["files"]["collect_list"]
    assert bootstrap["file_path"] == "/var/log/trainyard/bootstrap.log"
    assert {one["log_group_name"] for one in (bootstrap, health)} == {"/aws/parallelcluster/local-202611231811"}
    assert health["log_stream_name"].endswith(".{instance_id}.trainyard-health")
    assert ("metrics" in made) == gpus
    if gpus:
        assert made["metrics"]["namespace"] == "Trainyard/local"
        assert "utilization_gpu" in made["metrics"]["metrics_collected"]["nvidia_gpu"]["measurement"]
    assert monitored.calls("agent") == [f"-a append-config -m ec2 -c file:{file} -s"]
    assert bool(unit(monitored, UNITS[1])) == (mode == "managed")


# --- the labels of jobs


def labels(node: Node, phase: str, job: int, **variables: str) -> subprocess.CompletedProcess[str]:
    """The script as slurmd starts it: without a PATH, with the job's variables."""
    slurm = {"SLURM_JOB_ID": str(job), "SLURM_JOB_USER": "ada", "SLURM_SCRIPT_CONTEXT": f"{phase}_slurmd"}
    return subprocess.run(
        ["/bin/bash", ASSETS / "monitoring/job-labels.sh"],
        env={"TRAINYARD_ROOT": str(node.root)} | slurm | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture
def compute(node: Node) -> Node:
    for folder in (METRICS, GPU_JOBS):
        node.path(folder).mkdir(parents=True)
    return node


def gpu_jobs(node: Node) -> dict[str, str]:
    return {file.name: file.read_text() for file in node.path(GPU_JOBS).iterdir()}


def test_jobs_that_share_a_node(compute: Node) -> None:
    comment = {"SLURM_JOB_COMMENT": "mine, experiment=llama-7b", "SLURM_JOB_ACCOUNT": "research"}
    assert labels(compute, "prolog", 41, SLURM_JOB_GPUS="0,1", **comment).stderr == ""
    labels(compute, "prolog", 42, SLURM_JOB_GPUS="2")
    assert gpu_jobs(compute) == {"0": "41\n", "1": "41\n", "2": "42\n"}
    text = compute.path(f"{METRICS}/job-41.prom").read_text()
    shown = 'trainyard_job_info{job="41",user="ada",account="research",experiment="llama-7b",gpu="1"} 1\n'
    assert shown in text and text.count("} 1\n") == 2
    # GPU 0 is the next job's before the epilog of the last one ends.
    labels(compute, "prolog", 43, SLURM_JOB_GPUS="0")
    labels(compute, "epilog", 41)
    assert gpu_jobs(compute) == {"0": "43\n", "2": "42\n"}
    assert {file.name for file in compute.path(METRICS).iterdir()} == {"job-42.prom", "job-43.prom"}


def test_job_without_gpus_and_with_an_odd_comment(compute: Node) -> None:
    labels(compute, "prolog", 7, SLURM_JOB_COMMENT='a "quoted" comment')
    assert 'experiment="",gpu=""} 1\n' in compute.path(f"{METRICS}/job-7.prom").read_text()
    assert gpu_jobs(compute) == {}


def test_an_account_adds_no_series(compute: Node) -> None:
    """Any text may be given to `sbatch --account` while accounting is not enforced."""
    hostile = 'x"} 1\ntrainyard_xid_errors_total{gpu="0",xid="79"} 1\n\\'
    labels(compute, "prolog", 7, SLURM_JOB_ACCOUNT=hostile, SLURM_JOB_USER=hostile)
    [sample] = [one for one in compute.path(f"{METRICS}/job-7.prom").read_text().splitlines() if one[0] != "#"]
    assert sample.startswith('trainyard_job_info{job="7",user="x___1_trainyard_xid') and sample.count('"') == 10


def test_gpus_have_the_numbers_of_dcgm(compute: Node) -> None:
    """Slurm's are minor numbers, which differ on some machines (google/gvisor#9389)."""
    for address, minor in zip(("53", "64", "75", "86"), (2, 3, 0, 1), strict=True):
        folder = compute.path(f"/proc/driver/nvidia/gpus/0000:{address}:00.0")
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: \t\t NVIDIA H100\nDevice Minor: \t {minor}\n")
    labels(compute, "prolog", 7, SLURM_JOB_GPUS="0,1")
    assert gpu_jobs(compute) == {"2": "7\n", "3": "7\n"}
    assert 'gpu="2"} 1\n' in compute.path(f"{METRICS}/job-7.prom").read_text()


@pytest.mark.parametrize("phase", ["prolog", "epilog", "task_prolog"])
def test_no_fault_fails_a_prolog(node: Node, compute: Node, phase: str) -> None:
    """Slurm drains the node of a prolog that fails."""
    assert labels(compute, phase, 8, SLURM_JOB_ID="").returncode == 0
    for folder in (METRICS, GPU_JOBS):
        shutil.rmtree(node.path(folder))
        node.path(folder).symlink_to("/proc/1/fdinfo/none")
    assert labels(compute, phase, 8, SLURM_JOB_GPUS="0").returncode == 0
    for folder in (METRICS, GPU_JOBS):
        node.path(folder).unlink()
        node.path(folder).write_text("a file")
    assert labels(compute, phase, 8, SLURM_JOB_GPUS="0").returncode == 0


# --- the results of checks


def test_health_check_leaves_its_results(compute: Node, settings: Settings) -> None:
    write_settings(compute, settings)
    write_gpus(compute, gpu_rows(7))
    compute.path("/etc/trainyard").mkdir(parents=True, exist_ok=True)
    compute.path("/etc/trainyard/health.skip").write_text("scratch-size\n")
    assert health(compute).returncode == 0
    text = compute.path(f"{METRICS}/node-health.prom").read_text()
    assert 'trainyard_node_check_ok{check="gpus"} 0\n' in text
    assert 'trainyard_node_check_ok{check="file-systems"} 1\n' in text
    assert "scratch-size" not in text
    assert text.count("trainyard_node_check_time_seconds{") == text.count("trainyard_node_check_ok{") > 5
    assert "# TYPE trainyard_node_check_ok gauge\n" in text

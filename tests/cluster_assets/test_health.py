"""A compute node that cannot do its work takes itself out, with the reason, and nothing else does so."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster_assets.conftest import ASSETS, gpu_rows

if TYPE_CHECKING:
    from tests.cluster_assets.conftest import Node

Settings = dict[str, Any]


# How a node is broken, and what the health check reports. tests/scans breaks it in all ways that scans find.
FAULTS: dict[str, Callable[[Node, Settings], object]] = {
    "gpus: 7 x NVIDIA H100 80GB HBM3, wanted 8 x H100": lambda node, _: write_gpus(node, gpu_rows(7)),
    "efa-interfaces: 31, wanted 32": lambda node, _: node.path("/dev/infiniband/uverbs31").unlink(),
    "scratch-size: ": lambda _, settings: settings["queues"][0]["compute"][0]["instances"][0].update(nvme_gb=10**9),
}
# These end a bootstrap before the health check, or need not be tried at boot too.
RUNNING_FAULTS = FAULTS | {
    "gpu-memory: GPU 3: 2 uncorrected": lambda node, _: write_gpus(
        node, [row.replace(", 0, No", ", 2, No") if row.startswith("3,") else row for row in gpu_rows()]
    ),
    "nvidia-driver: 575.57.08, wanted 580.65.06 or later": lambda node, _: write_gpus(
        node, gpu_rows(driver="575.57.08")
    ),
    "fabric-manager: inactive, wanted active": lambda node, _: node.command(
        "systemctl", '[[ "$1" != is-active ]] || { echo inactive; exit 3; }'
    ),
    "efa-installer: 1.22.1, wanted 1.26.1 or later": lambda node, _: node.path(
        "/opt/amazon/efa_installed_packages"
    ).write_text("# EFA installer version: 1.22.1\n"),
    "scratch: /scratch is not mounted": lambda node, _: (node.fake / "mounts").write_text("/lustre\n/shared\n"),
    "job-reports: 3, wanted fewer than 3 since the boot": lambda node, settings: report(node, settings, 3),
    "file-systems: not mounted: /lustre": lambda node, _: (node.fake / "mounts").write_text("/shared\n/scratch\n"),
}


def write_gpus(node: Node, rows: list[str]) -> None:
    (node.fake / "gpus").write_text("\n".join(rows) + "\n")


def report(node: Node, settings: Settings, count: int) -> None:
    """Reports of training jobs, and an older one of the instance that had the name before."""
    folder = node.path(f"{settings['folders']['results']}/bad-nodes/gpu-dy-p5-1")
    folder.mkdir(parents=True)
    for job in range(count + 1):
        (folder / f"{job}.0.json").touch()
    os.utime(folder / "0.0.json", (1, 1))
    if os.geteuid() == 0:  # only root can make files of somebody else
        (folder / "of-another.json").touch()
        os.chown(folder / "of-another.json", 4242, 4242)


def health(node: Node, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the health check as slurmd does."""
    return subprocess.run(
        ["bash", ASSETS / "scans/node-health.sh", *arguments],
        env=os.environ | {"SLURMD_NODENAME": "gpu-dy-p5-1"} | node.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def updates(node: Node) -> list[str]:
    return [call for call in node.calls("scontrol") if call.startswith("update")]


@pytest.fixture
def made(node: Node, settings: Settings) -> Node:
    """A healthy node whose settings are there, without a bootstrap."""
    write_settings(node, settings)
    return node


def write_settings(node: Node, settings: Settings) -> None:
    node.path("/opt/trainyard").mkdir(exist_ok=True)
    node.path("/opt/trainyard/settings.json").write_text(json.dumps(settings))


def test_healthy_node_is_left_alone(made: Node) -> None:
    result = health(made)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert made.calls("scontrol") == []
    assert not made.path("/var/log/trainyard/health.log").exists()


def test_two_reports_of_training_jobs_are_too_few(made: Node, settings: Settings) -> None:
    report(made, settings, 2)
    assert health(made).returncode == 0 and updates(made) == []


@pytest.mark.parametrize("fault", RUNNING_FAULTS)
def test_unhealthy_node_drains_itself_with_the_reason(node: Node, settings: Settings, fault: str) -> None:
    RUNNING_FAULTS[fault](node, settings)
    write_settings(node, settings)
    assert health(node).returncode == 0
    (update,) = updates(node)
    assert update.startswith("update NodeName=gpu-dy-p5-1 State=DRAIN Reason=trainyard: ")
    assert fault in update
    assert fault in node.path("/var/log/trainyard/health.log").read_text()


@pytest.mark.parametrize("fault", FAULTS)
def test_node_that_boots_unhealthy_is_set_down_and_fails_its_bootstrap(
    node: Node, settings: Settings, fault: str
) -> None:
    FAULTS[fault](node, settings)
    result = node.bootstrap(settings, role="compute-configured", code=70)

    assert "step health of role compute-configured" in result.stderr and fault in result.stderr
    (update,) = updates(node)
    assert "State=DOWN" in update and fault in update


def test_node_is_named_as_parallelcluster_names_it_not_by_its_host_name(node: Node, settings: Settings) -> None:
    node.path("/etc/parallelcluster/slurm_plugin").mkdir(parents=True)
    node.path("/etc/parallelcluster/slurm_plugin/slurm_nodename").write_text("gpu-dy-p5-7\n")
    write_gpus(node, gpu_rows(7))
    node.bootstrap(settings, role="compute-configured", code=70)
    (update,) = updates(node)
    assert "NodeName=gpu-dy-p5-7 State=DOWN" in update


def test_bootstrap_fails_with_the_reason_where_slurm_cannot_be_updated(node: Node, settings: Settings) -> None:
    (node.fake / "scontrol-fails").touch()
    write_gpus(node, gpu_rows(7))
    result = node.bootstrap(settings, role="compute-configured", code=70)
    assert "gpus: 7 x" in result.stderr
    assert "cannot set" in node.path("/var/log/trainyard/health.log").read_text()


def test_no_answer_counts_only_when_it_comes_twice(made: Node) -> None:
    # The second process stands for one that hangs in the driver: it outlives SIGKILL and holds the pipe of the output.
    made.command("nvidia-smi", 'setsid -f sh -c "sleep 45; touch ${FAKE}/ended"; sleep 60')
    (made.fake / "mounts").unlink()
    made.environment["HEALTH_SECONDS"] = "5"
    assert health(made).returncode == 0 and updates(made) == []
    assert health(made).returncode == 0
    (update,) = updates(made)
    assert "gpus: no answer in 6 s" in update and "not mounted" not in update, "slurmd ends a check after 60 s"
    assert not (made.fake / "ended").exists()


def test_an_answer_in_between_resets_the_count(made: Node) -> None:
    made.path("/run/trainyard").mkdir(parents=True)
    made.path("/run/trainyard/no-answer").write_text("gpus\n")
    assert health(made).returncode == 0
    assert not made.path("/run/trainyard/no-answer").exists() and updates(made) == []


@pytest.mark.parametrize(
    ("state", "drained"),
    [
        ("IDLE+CLOUD+DRAIN", 0),
        ("DOWN+CLOUD", 0),
        ("DOWN*+CLOUD", 0),
        ("MIXED+DRAIN", 0),
        ("FAILING", 0),
        ("IDLE+CLOUD+POWERING_DOWN", 1),
    ],
)
def test_only_a_node_that_is_not_out_already_is_drained(made: Node, state: str, drained: int) -> None:
    write_gpus(made, gpu_rows(7))
    (made.fake / "node-state").write_text(f"NodeName=gpu-dy-p5-1 Arch=x86_64 State={state} Reason=somebody's\n")
    assert health(made).returncode == 0
    assert len(updates(made)) == drained


def test_check_that_the_administrator_skips(made: Node) -> None:
    write_gpus(made, gpu_rows(7))
    made.path("/etc/trainyard").mkdir(parents=True)
    made.path("/etc/trainyard/health.skip").write_text("fabric-manager\ngpus\n")
    assert health(made).returncode == 0
    assert updates(made) == []


def test_queue_whose_health_check_is_off_only_logs(node: Node, settings: Settings) -> None:
    settings["queues"][0]["health_check"] = False
    write_gpus(node, gpu_rows(7))
    node.bootstrap(settings, role="compute-configured")
    assert updates(node) == []
    assert "left in service" in node.path("/var/log/trainyard/health.log").read_text()


def test_node_without_gpus_efa_and_disks_is_healthy(node: Node, settings: Settings) -> None:
    node.path("/etc/chef/dna.json").write_text('{"cluster": {"scheduler_queue_name": "cpu"}}')
    for command in ("nvidia-smi", "systemctl"):
        node.command(command, "exit 1")
    write_settings(node, settings)
    assert health(node).returncode == 0
    assert updates(node) == []


@pytest.mark.parametrize("answer", ["p5.48xlarge", "p5en.48xlarge"])
def test_of_several_instance_types_ec2_says_which(node: Node, settings: Settings, answer: str) -> None:
    compute = settings["queues"][0]["compute"][0]
    compute["instances"].append(compute["instances"][0] | {"type": "p5en.48xlarge", "efa_interfaces": 16})
    write_settings(node, settings)
    node.command("curl", f'[[ "$*" == *api/token* ]] && echo TOKEN && exit; [[ "$*" == *TOKEN* ]] && echo {answer}')
    result = health(node, "--report")
    wanted = "" if answer == "p5.48xlarge" else "efa-interfaces: 32, wanted 16\n"
    assert result.stdout == wanted


def test_unknown_instance_type_is_not_held_against_the_node(node: Node, settings: Settings) -> None:
    settings["queues"][0]["compute"][0]["instances"] = []
    node.command("curl", "exit 28")
    write_gpus(node, gpu_rows(4))
    write_settings(node, settings)
    assert health(node, "--report").returncode == 0


def test_wrong_argument(made: Node) -> None:
    result = health(made, "--heal")
    assert result.returncode == 64 and "'--heal' is not known; allowed: --boot" in result.stderr


def test_persistence_by_the_service_or_else_by_the_driver(node: Node, settings: Settings) -> None:
    node.command("systemctl", 'echo "$*" >>"${FAKE}/systemctl-calls"; [[ "$*" != *persistenced* ]]')
    node.command("nvidia-smi", 'echo "$*" >>"${FAKE}/nvidia-smi-calls"; cat "${FAKE}/gpus"')
    node.bootstrap(settings, role="compute-configured")
    assert "enable --now nvidia-persistenced" in node.calls("systemctl")
    assert "-pm 1" in node.calls("nvidia-smi")

"""scan-host-environment.sh on a healthy node, and with one fault at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.cluster_assets.conftest import verbs_devices
from tests.scans.conftest import DOMAINS, GPUS, SCANS, Machine, bad, line

SCRIPT = "scan-host-environment.sh"


def test_healthy_compute_node(compute: Machine) -> None:
    report = compute.report(SCRIPT, "compute")
    assert bad(report) == {}
    assert line(report, "gpus")["found"] == "8 x NVIDIA H100 80GB HBM3"
    assert line(report, "efa-provider")["found"] == "32 of provider efa"
    assert line(report, "aws-ofi-nccl")["found"] == "1.22.0"
    assert line(report, "slurm")["found"] == "25.11.8"
    assert line(report, "scratch-write")["verdict"] == "ok"


def rows(old: str, new: str, count: int = -1) -> Callable[[Machine], None]:
    """nvidia-smi's answer with something replaced."""
    return tool("nvidia-smi", f"cat <<'END'\n{GPUS.replace(old, new, count)}\nEND")


def tool(name: str, body: str) -> Callable[[Machine], None]:
    return lambda machine: machine.tool(name, body)


def file(path: str, text: str) -> Callable[[Machine], object]:
    return lambda machine: machine.file(path, text)


def gone(path: str) -> Callable[[Machine], None]:
    return lambda machine: (machine.root / path).unlink()


def without(name: str) -> Callable[[Machine], None]:
    return lambda machine: machine.without(name)


FEWER = f"cat <<'END'\n{DOMAINS.split('provider: efa', 2)[1]}\nEND"
INSTALLER, PLUGIN = "/opt/amazon/efa_installed_packages", "/opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so"
PYXIS = "opt/slurm/etc/plugstack.conf.d/pyxis.conf"
# What happened; the failures and warnings that it causes; what the first of them found.
FAULTS: dict[str, tuple[Callable[[Machine], object], dict[str, str], str]] = {
    "seven GPUs": (rows(GPUS[GPUS.rindex("\n") :], ""), {"gpus": "failure"}, "7 x NVIDIA H100 80GB HBM3"),
    "another GPU": (rows("H100 80GB HBM3", "A10G"), {"gpus": "warning"}, "8 x NVIDIA A10G"),
    "no driver": (without("nvidia-smi"), {"gpus": "failure"}, "no nvidia-smi"),
    "the driver hangs": (tool("nvidia-smi", "sleep 600"), {"gpus": "failure"}, "no answer in 2 s"),
    "the driver fails": (tool("nvidia-smi", "echo broken; exit 255"), {"gpus": "failure"}, "nvidia-smi: broken"),
    "the driver is too old": (rows("580.95.05", "575.57.08"), {"nvidia-driver": "failure"}, "575.57.08"),
    "no persistence": (rows("Enabled", "Disabled", 1), {"gpu-persistence": "warning"}, "off on GPU 0"),
    "memory errors": (rows("Enabled, 0", "Enabled, 4", 1), {"gpu-memory": "failure"}, "GPU 0: 4 uncorrected"),
    "rows cannot be remapped": (rows("0, No", "0, Yes", 1), {"gpu-memory": "failure"}, "GPU 0: row remapping failed"),
    "no scratch": (tool("mountpoint", '[[ "$*" != */scratch ]]'), {"scratch": "failure"}, "/scratch is not mounted"),
    "scratch cannot be read": (
        tool("stat", '[[ "$*" != *%S*/scratch ]] && exec /usr/bin/stat "$@"; echo "stat: Input/output error"; exit 1'),
        {"scratch-size": "failure"},
        "Input/output error",
    ),
    "a job filled scratch": (
        tool("mktemp", "echo 'mktemp: failed to create file: No space left on device' >&2; exit 1"),
        {"scratch-write": "warning"},
        "No space left",
    ),
    "scratch cannot be written": (
        tool("mktemp", "echo 'mktemp: failed to create file: Read-only file system' >&2; exit 1"),
        {"scratch-write": "failure"},
        "Read-only",
    ),
    "services are off": (
        tool("systemctl", "echo inactive; exit 3"), {"fabric-manager": "failure", "slurmd": "failure"}, "inactive",
    ),
    "an EFA interface is gone": (gone("dev/infiniband/uverbs7"), {"efa-interfaces": "failure"}, "31"),
    "EFA answers for fewer": (tool("fi_info", FEWER), {"efa-provider": "failure"}, "1 of provider efa"),
    "EFA does not answer": (tool("fi_info", "echo '-61' >&2; exit 61"), {"efa-provider": "failure"}, "fi_info: -61"),
    "no fi_info": (without("fi_info"), {"efa-provider": "failure"}, "no fi_info"),
    "old EFA installer": (file(INSTALLER, "# EFA installer version: 1.25.0\n"), {"efa-installer": "failure"}, "1.25.0"),
    "an old plugin": (file(PLUGIN, "\0Initializing aws-ofi-nccl 1.12.1\0"), {"aws-ofi-nccl": "failure"}, "1.12.1"),
    "no plugin": (gone(PLUGIN.lstrip("/")), {"aws-ofi-nccl": "failure"}, "no libnccl-net.so"),
    "a disk is gone": (lambda m: m.settings(nvme_gb=10**9), {"scratch-size": "failure"}, " TB"),
    # What statfs says of an automount that did not mount.
    "only the automount of /fsx": (
        tool("stat", '[[ "$*" == *%T*/fsx ]] && echo autofs || exec /usr/bin/stat "$@"'),
        {"file-systems": "failure"},
        "not mounted: /fsx",
    ),
    "no /fsx": (tool("mountpoint", '[[ "$2" != */fsx ]]'), {"file-systems": "failure"}, "not mounted: /fsx"),
    "file systems hang": (
        tool("stat", '[[ "$*" == *%S* ]] && exec /usr/bin/stat "$@"; [[ "$*" == */home ]] && exit 1; sleep 600'),
        {"file-systems": "failure"},
        "no answer in 2 s",
    ),
    "Enroot is gone": (without("enroot"), {"enroot": "failure"}, "no enroot"),
    "Slurm is gone": (without("sinfo"), {"slurm": "failure"}, "no sinfo"),
    "Pyxis is off": (gone(PYXIS), {"pyxis": "failure"}, f"not enabled: no /{PYXIS}"),
    "no Pyxis plugin": (gone("usr/lib/slurm/spank_pyxis.so"), {"pyxis": "failure"}, "no /usr/lib/slurm/spank_pyxis.so"),
    "locked memory is limited": (lambda m: m.limits.update(l="64"), {"locked-memory": "failure"}, "64 KiB"),
    "few files can be open": (lambda m: m.limits.update(n="1024"), {"open-files": "warning"}, "1024"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_one_fault_on_a_compute_node(compute: Machine, fault: str) -> None:
    cause, expected, found = FAULTS[fault]
    cause(compute)
    compute.environment["SCAN_SECONDS"] = "2" if "hang" in fault else "60"
    report = compute.report(SCRIPT, "compute")
    assert bad(report) == expected
    assert found in line(report, next(iter(expected)))["found"]


def test_node_of_which_nothing_is_known_is_scanned_all_the_same(compute: Machine) -> None:
    (compute.root / "opt/trainyard/settings.json").unlink()
    compute.tool("curl", "exit 28")
    report = compute.report(SCRIPT, "compute")
    assert bad(report)["settings"] == "failure" and bad(report)["instance-type"] == "warning"
    assert line(report, "gpus")["verdict"] == "ok" and line(report, "efa-interfaces")["verdict"] == "skipped"


def test_a_node_says_its_own_name_in_a_step_of_slurm(compute: Machine) -> None:
    """srun hands on the environment of the node where it was typed."""
    compute.environment["HOSTNAME"] = "gpu-dy-p5-1"
    assert compute.report(SCRIPT, "compute")["host"] == os.uname().nodename
    assert f"compute node {os.uname().nodename}" in compute.run(SCRIPT, "compute").stdout


def test_nvlink_controllers_of_a_p6_b200_are_not_efa(compute: Machine) -> None:
    verbs_devices(compute.root, "mlx5_core", (32, 33))
    assert bad(compute.report(SCRIPT, "compute")) == {}
    gone("dev/infiniband/uverbs7")(compute)
    assert line(compute.report(SCRIPT, "compute"), "efa-interfaces")["found"] == "31"


def test_instance_type_by_hand(compute: Machine) -> None:
    (compute.root / "etc/chef/dna.json").unlink()
    compute.settings(type="p5en.48xlarge", efa_interfaces=16)
    report = compute.report(SCRIPT, "compute", "--instance-type", "p5en.48xlarge")
    found = line(report, "efa-interfaces")
    assert (found["verdict"], found["found"], found["wanted"]) == ("failure", "32", "16")


def test_healthy_head_node(head: Machine) -> None:
    report = head.report(SCRIPT, "head")
    assert bad(report) == {}
    assert line(report, "gpus")["found"] == "none"
    assert line(report, "docker")["found"] == "27.1.1"


@pytest.mark.parametrize(
    ("cause", "name", "verdict"),
    [
        (tool("nvidia-smi", "echo 'GPU 0: NVIDIA T4 (UUID: GPU-1)'"), "gpus", "warning"),
        (tool("scontrol", "echo 'Slurmctld(primary) is DOWN'; exit 1"), "slurm-controller", "failure"),
        (gone("shared/scripts/current"), "scripts", "failure"),
        (tool("enroot", "echo 3.2.0"), "enroot", "failure"),
        (tool("sinfo", "echo slurm 21.08.8"), "slurm", "failure"),
    ],
)
def test_one_fault_on_a_head_node(head: Machine, cause: Callable[[Machine], object], name: str, verdict: str) -> None:
    cause(head)
    report = head.report(SCRIPT, "head")
    assert bad(report) == {name: verdict}


def test_head_node_without_docker_is_well(head: Machine) -> None:
    head.without("docker")
    assert line(head.report(SCRIPT, "head"), "docker")["verdict"] == "skipped"


def test_table_for_people(compute: Machine) -> None:
    FAULTS["seven GPUs"][0](compute)
    result = compute.run(SCRIPT, "compute")
    lines = result.stdout.splitlines()
    assert lines[0].startswith("compute node ") and lines[0].endswith("p5.48xlarge")
    assert lines[1].split() == ["VERDICT", "CHECK", "FOUND", "WANTED", "WHAT", "TO", "DO"]
    (row,) = (one for one in lines if " gpus " in one)
    assert row.startswith("FAILURE") and "8 x H100" in row and "Xid 79" in row
    assert lines[-1].startswith("failure: ")
    assert all(one == one.rstrip() for one in lines)


def test_without_jq_and_python_the_scan_says_so(compute: Machine) -> None:
    compute.without("jq")
    report = compute.report(SCRIPT, "compute")
    assert bad(report) == {"minimums": "failure"}


def test_without_jq_the_other_checks_still_run(compute: Machine) -> None:
    compute.without("jq")
    (compute.tools / "python3").symlink_to(sys.executable)
    report = compute.report(SCRIPT, "compute")
    assert bad(report)["settings"] == "failure"
    assert line(report, "file-systems")["verdict"] == line(report, "scratch")["verdict"] == "skipped"


def test_text_of_a_tool_cannot_break_the_json(compute: Machine) -> None:
    compute.tool("nvidia-smi", r"""printf 'a "quote", a \\ and a \t tab \x01\n'; exit 9""")
    assert '"quote"' in line(compute.report(SCRIPT, "compute"), "gpus")["found"]


def test_a_status_after_a_nul_in_the_output_counts(compute: Machine) -> None:
    compute.tool("nvidia-smi", r"printf 'GPU 0\0 exit status 0\0'; exit 9")
    found = line(compute.report(SCRIPT, "compute"), "gpus")
    assert found["verdict"] == "failure" and "GPU 0 exit status 0" in found["found"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "give the node's role: head or compute"),
        (("login",), "'login' is not known; allowed: head, compute"),
        (("head", "compute"), "one role at a time"),
        (("head", "--minimums"), "--minimums needs a value"),
    ],
)
def test_wrong_arguments(compute: Machine, arguments: tuple[str, ...], reason: str) -> None:
    result = compute.run(SCRIPT, *arguments)
    assert result.returncode == 64 and reason in result.stderr and "--help" in result.stderr


def test_help(compute: Machine) -> None:
    result = compute.run(SCRIPT, "--help")
    assert result.returncode == 0 and "Exit code: 0 ok, 1 warnings, 2 failures" in result.stdout


@pytest.mark.skipif(os.path.exists("/dev/nvidia0"), reason="this machine has a GPU")  # noqa: PTH110
@pytest.mark.parametrize(
    "script", ["scan-host-environment.sh compute", "scan-host-environment.sh head", "scan-container-environment.sh"]
)
def test_this_very_machine_fails_cleanly(script: str) -> None:
    """No fakes: a machine without GPU, driver and Slurm gets a whole report, and no error of the shell."""
    name, *arguments = script.split()
    result = subprocess.run(
        ["bash", SCANS / name, *arguments], capture_output=True, text=True, check=False, timeout=120
    )
    assert (result.returncode, result.stderr) == (2, "")
    assert "FAILURE" in result.stdout and result.stdout.splitlines()[-1].startswith("failure: ")

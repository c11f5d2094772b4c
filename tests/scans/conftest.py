"""A machine to scan: a folder as its root, and a healthy fake of each tool, which a test can break."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.cluster_assets.conftest import P5, gpu_rows, queue, verbs_devices
from tests.stubs import fake_command

SCANS = Path(__file__).parents[2] / "cluster_assets/scans"
SCHEMA = json.loads((SCANS / "report.schema.json").read_text())
GPUS = "\n".join(gpu_rows())
DOMAINS = "\n".join(
    f"provider: efa\n    fabric: efa\n    domain: rdmap{index}s0-rdm\n    type: FI_EP_RDM" for index in range(32)
)
FI_INFO = f"""
[[ "$1" != --version ]] || {{ printf 'fi_info: 2.3\\nlibfabric: 2.3.1amzn1.0\\n'; exit; }}
cat <<'END'
{DOMAINS}
END"""

COMPUTE = {
    "nvidia-smi": f"cat <<'END'\n{GPUS}\nEND",
    "systemctl": "echo active",
    "fi_info": FI_INFO,
    "enroot": "echo 4.1.2",
    "sinfo": "echo slurm 25.11.8",
    "mountpoint": "exit 0",
}
HEAD = {
    "sinfo": "echo slurm 25.11.8",
    "scontrol": "echo 'Slurmctld(primary) at ip-10-0-0-1 is UP'",
    "enroot": "echo 4.1.2",
    "docker": "echo 27.1.1",
    "mountpoint": "exit 0",
}
# The system's own commands that scans use; PATH has no others.
SYSTEM = [
    *("awk", "bash", "cat", "chmod", "date", "dirname", "env", "getconf", "grep", "head", "jq", "ls", "mktemp"),
    *("readlink", "rm", "sed", "sleep", "sort", "stat", "sync", "timeout", "tr", "uname", "wc"),
]


@dataclass
class Machine:
    root: Path
    tools: Path
    environment: dict[str, str] = field(default_factory=dict)
    limits: dict[str, str] = field(default_factory=lambda: {"l": "unlimited", "n": "1048576"})

    def tool(self, name: str, body: str) -> None:
        """Install or replace a command."""
        (self.tools / name).unlink(missing_ok=True)
        fake_command(self.tools / name, body)

    def without(self, name: str) -> None:
        (self.tools / name).unlink()

    def file(self, path: str, text: str = "") -> Path:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def settings(self, **changes: Any) -> None:  # noqa: ANN401
        settings = {
            "schema": 1,
            "environment": "local",
            "mounts": [{"path": "/fsx"}, {"path": "/shared"}, {"path": "/home"}],
            "folders": {"scripts": "/shared/scripts"},
            "queues": [queue("gpu", "/scratch", "p5", P5 | changes)],
        }
        self.file("/opt/trainyard/settings.json", json.dumps(settings))

    def run(self, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/bash", str(SCANS / script), *arguments],
            env={
                "PATH": str(self.tools),
                "TRAINYARD_ROOT": str(self.root),
                "SCAN_SECONDS": "60",
                # A function hides the builtin, because a container cannot raise limits.
                "BASH_FUNC_ulimit%%": f'() {{ [ "$1" = -l ] && echo {self.limits["l"]} || echo {self.limits["n"]}; }}',
                "SCAN_PATH": "",
            }
            | self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )

    def report(self, script: str, *arguments: str) -> dict[str, Any]:
        """The report as a program reads it, checked against its schema and against the exit code."""
        result = self.run(script, *arguments, "--json")
        assert result.stderr == ""
        report: dict[str, Any] = json.loads(result.stdout)
        jsonschema.validate(report, SCHEMA)
        lines = report["lines"]
        assert report["counts"] == {
            verdict: sum(line["verdict"] == verdict for line in lines)
            for verdict in ("ok", "warning", "failure", "skipped")
        }
        assert result.returncode == {"ok": 0, "warning": 1, "failure": 2}[report["verdict"]]
        assert len({line["name"] for line in lines}) == len(lines)
        assert all(line["action"] for line in lines if line["verdict"] in ("warning", "failure"))
        return report


def line(report: dict[str, Any], name: str) -> dict[str, str]:
    """One line of a report."""
    (found,) = (one for one in report["lines"] if one["name"] == name)
    return found  # type: ignore[no-any-return]


def bad(report: dict[str, Any]) -> dict[str, str]:
    """The failures and warnings: verdict by name."""
    return {one["name"]: one["verdict"] for one in report["lines"] if one["verdict"] in ("warning", "failure")}


def machine_with(tmp_path: Path, tools: dict[str, str]) -> Machine:
    """A machine with the system's own commands and these."""
    machine = Machine(root=tmp_path / "root", tools=tmp_path / "tools")
    machine.root.mkdir()
    machine.tools.mkdir()
    for name in SYSTEM:
        if path := shutil.which(name):
            (machine.tools / name).symlink_to(path)
    for name, body in tools.items():
        machine.tool(name, body)
    return machine


def pyxis(machine: Machine) -> None:
    machine.file("/opt/slurm/etc/plugstack.conf.d/pyxis.conf", "required /usr/lib/slurm/spank_pyxis.so\n")
    machine.file("/usr/lib/slurm/spank_pyxis.so")


@pytest.fixture
def compute(tmp_path: Path) -> Machine:
    """A healthy P5 node."""
    machine = machine_with(tmp_path, COMPUTE)
    machine.settings()
    queue_name = {"scheduler_queue_name": "gpu", "scheduler_compute_resource_name": "p5"}
    machine.file("/etc/chef/dna.json", json.dumps({"cluster": queue_name}))
    machine.file("/opt/amazon/efa_installed_packages", "# EFA installer version: 1.49.0\n# Debug packages: no\n")
    machine.file("/opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so", "\x7fELF\0\1Initializing aws-ofi-nccl 1.22.0\0git-1\0")
    pyxis(machine)
    verbs_devices(machine.root, "efa", range(32))
    for mount in ("scratch", "fsx", "shared", "home"):
        (machine.root / mount).mkdir()
    return machine


@pytest.fixture
def head(tmp_path: Path) -> Machine:
    """A healthy head node."""
    machine = machine_with(tmp_path, HEAD)
    machine.settings()
    pyxis(machine)
    for mount in ("fsx", "home"):
        (machine.root / mount).mkdir()
    (machine.root / "shared/scripts/versions/abc").mkdir(parents=True)
    (machine.root / "shared/scripts/current").symlink_to("versions/abc")
    return machine

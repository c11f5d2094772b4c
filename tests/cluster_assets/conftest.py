"""A node in a folder: the real scripts run on it, against a bucket that is a folder too.

Stand-ins: `aws` (copies from the folder), `mountpoint` (a list of mounts), `systemctl` (a record of calls),
`lsblk`, `enroot`, `nvidia-smi` (rows from a file) and `scontrol` (a record of calls, a state from a file).
"""

from __future__ import annotations

import getpass
import hashlib
import io
import json
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.stubs import fake_command

ASSETS = Path(__file__).parents[2] / "cluster_assets"
BUCKET = "local-assets"
REGION = "us-east-1"
PLUGIN = "/usr/local/lib/slurm/spank_pyxis.so"

FAKES = {
    # aws s3 cp [options] s3://bucket/key file; fails as the AWS CLI does, and once for each file in refuse/.
    "aws": """
        uri="${@: -2:1}" file="${@: -1}"
        echo "${uri}" >>"${FAKE}/aws-calls"
        for failure in "${FAKE}"/refuse/*; do
          if [[ -e "${failure}" ]] && rm "${failure}" 2>/dev/null; then
            echo "An error occurred (503) when calling the GetObject operation: SlowDown" >&2
            exit 1
          fi
        done
        path="${FAKE}/s3/${uri#s3://}"
        if [[ ! -d "${FAKE}/s3/$(cut -d/ -f3 <<<"${uri}")" ]]; then
          echo "fatal error: An error occurred (NoSuchBucket) when calling the GetObject operation" >&2
          exit 1
        fi
        if [[ ! -f "${path}" ]]; then
          echo "fatal error: An error occurred (404) when calling the HeadObject operation: Not Found" >&2
          exit 1
        fi
        cp "${path}" "${file}"
    """,
    "mountpoint": 'grep -qxF "${2#"${TRAINYARD_ROOT}"}" "${FAKE}/mounts"',
    "systemctl": 'echo "$*" >>"${FAKE}/systemctl-calls"',
    "lsblk": 'cat "${FAKE}/disks"',
    "enroot": "true",
    "nvidia-smi": 'cat "${FAKE}/gpus"',
    "scontrol": """
        echo "$*" >>"${FAKE}/scontrol-calls"
        [[ ! -e "${FAKE}/scontrol-fails" ]] || { echo "slurm_update error: Access denied" >&2 && exit 1; }
        [[ "$*" != *"show node"* ]] || cat "${FAKE}/node-state"
    """,
}
# A P5 but for its disks: what counts as scratch here is the machine's own disk.
P5 = {"type": "p5.48xlarge", "gpus": 8, "gpu": "H100", "efa_interfaces": 32, "nvme_gb": 1, "nvswitch": True}
C7I = {"type": "c7i.xlarge", "gpus": 0, "gpu": "", "efa_interfaces": 0, "nvme_gb": 0, "nvswitch": False}


def gpu_rows(count: int = 8, *, driver: str = "580.95.05", persistence: str = "Enabled") -> list[str]:
    """What nvidia-smi answers to the fields that the checks ask for."""
    return [f"{index}, NVIDIA H100 80GB HBM3, {driver}, {persistence}, 0, No" for index in range(count)]


@dataclass
class Node:
    """One node with its root, and the bucket it reads."""

    root: Path
    fake: Path
    environment: dict[str, str] = field(default_factory=dict)

    def path(self, absolute: str) -> Path:
        return self.root / absolute.lstrip("/")

    def key(self, key: str) -> Path:
        return self.fake / "s3" / BUCKET / key

    def log(self) -> str:
        return self.path("/var/log/trainyard/bootstrap.log").read_text()

    def calls(self, command: str) -> list[str]:
        record = self.fake / f"{command}-calls"
        return record.read_text().splitlines() if record.exists() else []

    def start(self, role: str, *, bucket: str = BUCKET) -> subprocess.Popen[str]:
        """Run the entry script as ParallelCluster does: under another name, with the three arguments."""
        # A file of its own each time: a shell that still reads the last one would lose its text.
        handle, script = tempfile.mkstemp(prefix="tmp", dir=self.fake)
        os.write(handle, (ASSETS / "entry/entry.sh").read_bytes())
        os.close(handle)
        return subprocess.Popen(
            ["bash", script, bucket, role, REGION],
            env=os.environ | self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, role: str, *, bucket: str = BUCKET) -> subprocess.CompletedProcess[str]:
        process = self.start(role, bucket=bucket)
        out, err = process.communicate(timeout=300)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def bootstrap(
        self, settings: dict[str, Any], *, role: str, code: int = 0, changed: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Publish the assets and run the entry script, which must end with `code`."""
        self.publish(settings, changed=changed)
        result = self.run(role)
        assert result.returncode == code, result.stderr
        return result

    def command(self, name: str, body: str) -> None:
        """Replace a command by a script."""
        fake_command(self.fake / "bin" / name, body)

    def publish(
        self, settings: dict[str, Any], *, changed: dict[str, str] | None = None, current: dict[str, str] | None = None
    ) -> str:
        """Publish the assets, with `changed` files replaced or added; returns the bundle's SHA-256."""
        archive = bundle(changed or {})
        sha256 = hashlib.sha256(archive).hexdigest()
        self.key(f"cluster/bundles/{sha256}.tar").parent.mkdir(parents=True, exist_ok=True)
        self.key(f"cluster/bundles/{sha256}.tar").write_bytes(archive)
        self.key("cluster/settings.json").write_text(json.dumps(settings))
        names = {"bundle": f"cluster/bundles/{sha256}.tar", "sha256": sha256, "settings": "cluster/settings.json"}
        self.key("cluster/current.json").write_text(json.dumps(names | (current or {})))
        return sha256

    def snapshot(self) -> dict[str, tuple[int, bytes, int]]:
        """Files but logs and settings.json: mode, bytes, mtime."""
        return {
            str(path.relative_to(self.root)): (path.stat().st_mode, path.read_bytes(), path.stat().st_mtime_ns)
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and "/log/" not in str(path) and path.name != "settings.json"
        }


def bundle(changed: dict[str, str]) -> bytes:
    """The archive, as `cluster_assets/README.md` fixes it."""
    files = {
        str(path.relative_to(ASSETS)): path.read_bytes()
        for path in ASSETS.rglob("*")
        if path.is_file() and path.name != "README.md" and not path.name.startswith(".")
    }
    files |= {name: text.encode() for name, text in changed.items()}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in sorted(files):
            member = tarfile.TarInfo(name)
            member.size = len(files[name])
            member.mode = 0o755 if name.endswith(".sh") else 0o644
            archive.addfile(member, io.BytesIO(files[name]))
    return buffer.getvalue()


def queue(name: str, scratch: str | None, resource: str, instance: dict[str, Any]) -> dict[str, Any]:
    compute = [{"name": resource, "efa": instance["efa_interfaces"] > 0, "instances": [dict(instance)]}]
    return {"name": name, "scratch": scratch, "health_check": True, "compute": compute}


@pytest.fixture
def settings() -> dict[str, Any]:
    """Settings of an environment with a Lustre file system, a shared volume and one model."""
    folders = {name: f"/lustre/{name}" for name in ("data", "checkpoints", "logs", "results")}
    model = {name: f"/lustre/model1/{name}" for name in ("checkpoints", "outputs", "logs", "tensorboard")}
    return {
        "schema": 1,
        "environment": "local",
        "region": REGION,
        "cluster": {"name": "local", "os": "ubuntu2204", "user": getpass.getuser()},
        "buckets": {"data": "local-data", "checkpoints": "local-checkpoints", "assets": BUCKET},
        "repositories": [{"name": "pytorch-training-custom", "uri": "registry.example/pytorch-training-custom"}],
        "mounts": [
            {"name": "training", "path": "/lustre", "type": "lustre"},
            {"name": "shared", "path": "/shared", "type": "openzfs"},
        ],
        "bases": {"lustre": "/lustre", "shared": "/shared"},
        "folders": folders | {"images": "/shared/containers/images", "scripts": "/shared/scripts"},
        "queues": [queue("gpu", "/scratch", "p5", P5), queue("cpu", None, "c7i", C7I)],
        "models": [{"name": "model1", "queue": "gpu", "nodes": 2, "folders": model | {"data": "/lustre/data"}}],
    }


def verbs_devices(root: Path, driver: str, numbers: Iterable[int]) -> None:
    """Device files of RDMA interfaces, and the kernel's links to their driver."""
    folder = root / "sys/bus/pci/drivers" / driver
    folder.mkdir(parents=True)
    (root / "dev/infiniband").mkdir(parents=True, exist_ok=True)
    for number in numbers:
        (root / f"dev/infiniband/uverbs{number}").touch()
        device = root / f"sys/class/infiniband_verbs/uverbs{number}/device"
        device.mkdir(parents=True)
        (device / "driver").symlink_to(folder)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node as an official AMI boots it: mounts there, Pyxis present and switched off, local NVMe at /scratch."""
    fake, root = tmp_path / "fake", tmp_path / "root"
    (fake / "refuse").mkdir(parents=True)
    for name, body in FAKES.items():
        fake_command(fake / "bin" / name, body)
    (fake / "mounts").write_text("/lustre\n/shared\n/scratch\n")
    (fake / "disks").write_text("Amazon Elastic Block Store\nAmazon EC2 NVMe Instance Storage\n")
    files = {
        "/opt/parallelcluster/examples/spank/plugstack.conf": "# Example\ninclude /opt/slurm/etc/plugstack.conf.d/*\n",
        "/opt/parallelcluster/examples/pyxis/pyxis.conf": f"# Example\nrequired {PLUGIN} runtime_path=/run/pyxis\n",
        PLUGIN: "",
        "/opt/slurm/etc/slurm.conf": "",
        "/etc/chef/dna.json": json.dumps(
            {"cluster": {"scheduler_queue_name": "gpu", "scheduler_compute_resource_name": "p5"}}
        ),
        "/opt/amazon/efa_installed_packages": "# EFA installer version: 1.49.0\n# Packages installed:\nlibfabric\n",
    }
    files |= {f"/dev/nvidia{index}": "" for index in range(8)}
    (fake / "gpus").write_text("\n".join(gpu_rows()) + "\n")
    (fake / "node-state").write_text("NodeName=gpu-dy-p5-1 Arch=x86_64 State=IDLE+CLOUD Reason=\n")
    for name, text in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    verbs_devices(root, "efa", range(32))
    for mount in ("lustre", "shared", "scratch"):
        (root / mount).mkdir()
    return Node(
        root=root,
        fake=fake,
        environment={
            "PATH": f"{fake / 'bin'}:{os.environ['PATH']}",
            "FAKE": str(fake),
            "TRAINYARD_ROOT": str(root),
            "TRAINYARD_FETCH_PAUSE_MS": "10",
            "TRAINYARD_MOUNT_SECONDS": "0",
            "TRAINYARD_MOUNT_PAUSE": "0.1",
        },
    )

"""The bootstrap on a real Debian or Ubuntu root, as root, twice: the second run changes nothing at all.

The root is this machine's own, under an overlay in namespaces of its own (real_root.sh): real users, a real /etc, real
mounts (tmpfs for the file systems), the real coreutils, jq and util-linux. Stand-ins are the commands that no such
machine has: aws, enroot, nvidia-smi, scontrol, lsblk, and systemctl, since systemd does not run in there: that units
are written is shown, that systemd reads them is not.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster_assets.conftest import ASSETS, BUCKET, FAKES, REGION

if TYPE_CHECKING:
    from tests.cluster_assets.conftest import Node

Settings = dict[str, Any]
USER = "trainyard-test"
SCRIPT = Path(__file__).parent / "real_root.sh"
PROBE = """
place="$(mktemp -d)"
mount -t tmpfs probe "${place}"
mkdir "${place}"/{upper,work,root}
mount -t overlay -o "lowerdir=/,upperdir=${place}/upper,workdir=${place}/work" overlay "${place}/root"
"""
ROLES = (["head-configured"], ["compute-start", "compute-configured"], ["login-configured"])


def require_overlay() -> None:
    """Fail, with what to do, where root of a Debian or Ubuntu machine may not mount an overlay over its root."""
    try:
        done = subprocess.run(["unshare", "--mount", "bash", "-ec", PROBE], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.fail("unshare and mount are missing: install them with scripts/install-lab-packages.sh")
    if done.returncode:
        pytest.fail(
            f"root may not mount an overlay here: {done.stderr.strip()}\n"
            "Run the tests on a machine of their own, or in a container that may mount (--privileged)."
        )


@pytest.fixture
def files(node: Node, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """What a ParallelCluster image has and this machine has not; commands first on the usual PATH."""
    folder = tmp_path / "files"
    shutil.copytree(node.root, folder, ignore=lambda *_: ["dev", "sys", "lustre", "shared", "scratch"])
    queue = {"scheduler_queue_name": "gpu"} if "compute" in request.node.name else {}
    (folder / "etc/chef/dna.json").write_text(json.dumps({"cluster": queue}))
    for name in ("aws", "systemctl", "enroot", "nvidia-smi", "scontrol", "lsblk"):
        command = folder / "usr/local/sbin" / name
        command.parent.mkdir(parents=True, exist_ok=True)
        command.write_text(f"#!/usr/bin/env bash\n{FAKES[name]}\n")
        command.chmod(0o755)
    (node.fake / "tmpx7k2").write_bytes((ASSETS / "entry/entry.sh").read_bytes())
    (tmp_path / "layers").mkdir()
    return folder


@pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/etc/debian_version").exists(),
    reason="changes a root: needs root on Debian or Ubuntu",
)
@pytest.mark.parametrize("roles", ROLES, ids=lambda roles: roles[-1])
@pytest.mark.usefixtures("files")
def test_second_run_on_a_real_root_changes_nothing(node: Node, settings: Settings, roles: list[str]) -> None:
    require_overlay()
    settings["cluster"]["user"] = USER
    node.publish(settings)
    folder = node.fake.parent
    namespaces = ["unshare", "--mount", "--uts", "--pid", "--fork", "--propagation", "private"]
    result = subprocess.run(
        [*namespaces, "bash", SCRIPT, folder, BUCKET, REGION, *roles],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert result.returncode == 0, result.stderr[-3000:]

    first, second = ((folder / f"list-{run}").read_text().splitlines() for run in (1, 2))
    assert second == first
    found = dict(line.split(" ", 1) for line in first if line.startswith("/"))
    wanted = {
        "head-configured": {
            "/lustre/model1/checkpoints": f"drwxrwxr-x {USER} {USER} ",
            "/shared/scripts/current": "lrwxrwxrwx root root ",
            "/opt/slurm/etc/plugstack.conf": "-rw-r--r-- root root ",
            "/etc/security/limits.d/90-trainyard.conf": "-rw-r--r-- root root ",
        },
        "compute-configured": {
            "/scratch/enroot/cache": "drwxrwxrwt root root ",
            "/etc/enroot/enroot.conf": "-rw-r--r-- root root ",
            "/etc/systemd/system/slurmd.service.d/90-trainyard.conf": "-rw-r--r-- root root ",
        },
        "login-configured": {"/var/enroot/cache": "drwxrwxrwt root root "},
    }[roles[-1]]
    for path, begin in wanted.items():
        assert found[path].startswith(begin), (path, found[path])

    login = (folder / "login").read_text()
    assert "machine registry.example login AWS password $(aws ecr get-login-password" in login
    assert f"600 {USER}\n" in login and ". /opt/trainyard/pcluster-env.sh\n" in login
    assert "/shared/scripts/current/images:/shared/scripts/current/scans:/shared/scripts/current/jobs" in login

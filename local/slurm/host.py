"""What this host offers to a laboratory, and what it lacks."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from ops.problem import Problem

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
COMMANDS = ("bash", "unshare", "nsenter", "ip", "mount", "chroot", "mmdebstrap")
# Controllers of cgroups version 1 that Slurm's plugins use. cpu and cpuset are left out: a node claims more cores than
# the host has.
CONTROLLERS = ("devices", "freezer", "memory", "cpuacct")
CGROUPS = Path("/sys/fs/cgroup")
REMOVE_SECONDS = 60
INSTALL = Path(__file__).resolve().parents[2] / "scripts" / "install-lab-packages.sh"
INSTALL_LIMIT_S = 600


class Unavailable(Problem):
    """This host cannot run a laboratory; the message says why."""


def check() -> None:
    """Check whether a laboratory can start here.

    Raises:
        Unavailable: not root, not Linux, no overlay file system, or commands are missing.
    """
    if not Path("/proc/self/ns/net").exists():
        raise Unavailable("the laboratory needs Linux with namespaces.")
    if os.geteuid() != 0:
        raise Unavailable("the laboratory creates namespaces and mounts, so it needs root.")
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    if missing := [name for name in COMMANDS if shutil.which(name, path=path) is None]:
        raise Unavailable(f"the laboratory needs {', '.join(missing)}. Run scripts/{INSTALL.name} first.")
    if "overlay" not in Path("/proc/filesystems").read_text().split():
        raise Unavailable("the laboratory needs overlayfs, which this kernel lacks (try `modprobe overlay`).")


def install() -> None:
    """Install the packages that a laboratory needs on this host; raises Unavailable with the reason of a failure."""
    try:
        done = subprocess.run(
            ["bash", str(INSTALL)], capture_output=True, text=True, timeout=INSTALL_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired as late:
        raise Unavailable(f"installing its packages took more than {INSTALL_LIMIT_S // 60} minutes") from late
    if done.returncode:
        raise Unavailable((done.stderr.strip().splitlines() or [f"{INSTALL.name} failed"])[-1])


@contextlib.contextmanager
def exclusive(lock: Path) -> Iterator[None]:
    """Hold this lock file while entered; waits for its present holder."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def controllers() -> tuple[str, ...]:
    """The cgroup controllers that nodes can use; none with version 2 or without write access.

    Without them Slurm tracks processes by their parents (proctrack/linuxproc) and binds GPUs only by
    CUDA_VISIBLE_DEVICES.
    """
    found = tuple(
        name
        for name in CONTROLLERS
        if (CGROUPS / name / "cgroup.procs").exists() and os.access(CGROUPS / name, os.W_OK)
    )
    return found if {"devices", "freezer"} <= set(found) else ()


def remove_group(group: str) -> None:
    """Remove a control group and those below it, in every controller, when their processes have ended."""
    tops = [CGROUPS / controller / group for controller in CONTROLLERS]
    deadline = time.monotonic() + REMOVE_SECONDS
    while left := [top for top in tops if top.is_dir()]:
        for top in left:
            for folder, _, _ in os.walk(top, topdown=False):
                # A killed process still counts for a moment.
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()
        if time.monotonic() > deadline:
            return
        time.sleep(0.02)

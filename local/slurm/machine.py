"""What this machine offers to a laboratory, and what it lacks."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path

from ops.problem import Problem

COMMANDS = ("bash", "unshare", "nsenter", "ip", "mount", "chroot", "mmdebstrap")
# The controllers of control groups version 1 that Slurm's plugins use. cpu and cpuset stay out: a node claims far
# more cores than there are.
CONTROLLERS = ("devices", "freezer", "memory", "cpuacct")
CGROUPS = Path("/sys/fs/cgroup")
REMOVE_SECONDS = 5
INSTALL = "scripts/install-lab-packages.sh"


class Unavailable(Problem):
    """A laboratory cannot be had on this machine; the message says why."""


def check() -> None:
    """Raise Unavailable unless a laboratory can be started here.

    Raises:
        Unavailable: not root, not Linux, no overlay file system, or commands are missing.
    """
    if not hasattr(os, "geteuid") or not Path("/proc/self/ns/net").exists():
        raise Unavailable("the laboratory needs Linux with namespaces.")
    if os.geteuid() != 0:
        raise Unavailable("the laboratory makes namespaces and mounts, so it must be run by root.")
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    if missing := [name for name in COMMANDS if shutil.which(name, path=path) is None]:
        raise Unavailable(f"the laboratory misses {', '.join(missing)}. Run {INSTALL} first.")
    if "overlay" not in Path("/proc/filesystems").read_text().split():
        raise Unavailable("the laboratory needs overlayfs, which this kernel has not (try `modprobe overlay`).")


def controllers() -> tuple[str, ...]:
    """The controllers of control groups that a node can have for itself; none where the machine has version 2 or
    forbids it.

    Without them Slurm follows processes by their parents (proctrack/linuxproc) and binds GPUs by CUDA_VISIBLE_DEVICES
    alone.
    """
    found = []
    for name in CONTROLLERS:
        folder = CGROUPS / name
        if not (folder / "cgroup.procs").exists() or not os.access(folder, os.W_OK):
            continue
        found.append(name)
    return tuple(found) if {"devices", "freezer"} <= set(found) else ()


def remove_group(group: str) -> None:
    """Remove a control group and those below it, in every controller, once the processes in them are gone."""
    tops = [CGROUPS / controller / group for controller in CONTROLLERS]
    deadline = time.monotonic() + REMOVE_SECONDS
    while left := [top for top in tops if top.is_dir()]:
        for top in left:
            for folder, _, _ in os.walk(top, topdown=False):
                # A process that has just been killed still counts for a moment.
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()
        if time.monotonic() > deadline:
            return
        time.sleep(0.02)

"""The nodes' root file system: Debian with Slurm and the stand-ins, built once by mmdebstrap for all laboratories.

It is cached in ~/.cache/trainyard/lab, or TRAINYARD_LAB_CACHE; each list of packages has its own base. LAB_CONTAINERS
names a folder that scripts/build-lab-containers.sh filled.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import get_args

from local.slurm.host import Unavailable, exclusive
from local.slurm.plan import Base
from ops.problem import Problem

HERE = Path(__file__).parent
PACKAGES = HERE / "packages.txt"
FINISH = HERE / "node" / "finish-base.sh"
PLUGIN = HERE / "spank" / "pyxis.c"
LIMITS = HERE / "node" / "limits.c"
CONTAINERS = "LAB_CONTAINERS"
MIRROR = "http://deb.debian.org/debian"
LIMIT_S = 900
UNREACHABLE = ("Could not connect", "Unable to connect", "Could not resolve", "Temporary failure", "Connection timed")
LEFT_OUT = ("doc", "info", "javascript", "locale", "man")
# With --dpkgopt, mmdebstrap would pass each essential package through a filter in Python.
EXCLUDE = f"""printf 'path-exclude=/usr/share/%s/*\\n' {" ".join(LEFT_OUT)} >"$1/etc/dpkg/dpkg.cfg.d/left-out\""""
REMOVE = f"""cd "$1/usr/share" && rm -rf {" ".join(f"{name}/*" for name in LEFT_OUT)}"""


def cache() -> Path:
    """The folder of bases."""
    if named := os.environ.get("TRAINYARD_LAB_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trainyard" / "lab"


def containers(suite: Base) -> Path | None:
    """The folder of LAB_CONTAINERS with Enroot and Pyxis for a suite's nodes. None if the variable is not set.

    Raises:
        Problem: that folder has none for the suite.
    """
    if not (named := os.environ.get(CONTAINERS)):
        return None
    if not (Path(named) / suite / "usr/local/lib/slurm/spank_pyxis.so").is_file():
        raise Problem(
            f"{CONTAINERS}={named} has no Enroot and Pyxis for Debian {suite}; build them there with "
            f"scripts/build-lab-containers.sh, or unset {CONTAINERS} to use the simulated ones"
        )
    return Path(named).resolve() / suite


def packages(suite: Base) -> list[str]:
    """The packages of a suite, from packages.txt."""
    found = []
    for line in PACKAGES.read_text(encoding="utf-8").splitlines():
        only, colon, name = line.strip().partition(":")
        if not only or only.startswith("#"):
            continue
        if not colon:
            found.append(only)
        elif only == suite:
            found.append(name)
    return found


def folder(suite: Base) -> Path:
    """The folder of a suite's base, which need not exist yet."""
    if suite not in get_args(Base):
        raise Problem(f"no base '{suite}'; allowed: {', '.join(get_args(Base))}")
    sources = b"".join(file.read_bytes() for file in (FINISH, PLUGIN, LIMITS))
    digest = hashlib.sha256("\n".join(packages(suite)).encode() + sources)
    return cache() / f"{suite}-{digest.hexdigest()[:12]}"


def ensure(suite: Base, report: Callable[[str], None] | None = None) -> Path:
    """The base of a suite, built first if it is missing (about 40 s, some 700 MB).

    Args:
        suite: the Debian release.
        report: called with a line of text before a build.

    Raises:
        Unavailable: no package archive is reachable.
        Problem: the packages cannot be installed.
    """
    target = folder(suite)
    if target.is_dir():
        return target
    with exclusive(cache() / f"{suite}.lock"):
        if target.is_dir():
            return target
        if report:
            report(f"building the nodes' root file system: Debian {suite} with Slurm (once, about a minute)")
        partial = target.with_name(f".{target.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        _bootstrap(suite, partial)
        partial.rename(target)
    return target


def _bootstrap(suite: Base, target: Path) -> None:
    line = [
        # Its mounts of /proc, /sys and /dev are its own: if it is killed they end, and nobody deletes through them.
        *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"),
        *("mmdebstrap", "--variant=essential", "--mode=root", "--components=main"),
        *("--aptopt=APT::Install-Recommends false", "--dpkgopt=force-unsafe-io"),
        *(f"--setup-hook={EXCLUDE}", f"--extract-hook={REMOVE}"),
        f"--include={','.join(packages(suite))}",
        f"--customize-hook=copy-in {PLUGIN} {LIMITS} /tmp",
        f"--customize-hook=chroot \"$1\" /bin/bash -s <'{FINISH}'",
        suite,
        str(target),
        os.environ.get("TRAINYARD_LAB_MIRROR", MIRROR),
    ]
    try:
        result = subprocess.run(
            line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as problem:
        shutil.rmtree(target, ignore_errors=True)
        raise Problem(f"cannot build the base of Debian {suite}: {problem}") from problem
    if result.returncode:
        shutil.rmtree(target, ignore_errors=True)
        tail = "\n".join(result.stdout.splitlines()[-15:])
        unreachable = any(sign in result.stdout for sign in UNREACHABLE)
        raise (Unavailable if unreachable else Problem)(
            f"mmdebstrap cannot build the base of Debian {suite}. Is {line[-1]} reachable? Its last output:\n{tail}"
        )

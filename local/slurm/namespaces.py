"""Starting, finding, entering and ending the processes of a laboratory.

There is no pid file that could be stale: the kernel's list of processes is searched for the laboratory's scripts, which
have its folder as an argument. An init is process 1 of a pid namespace.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from local.slurm.host import PATH
from ops.problem import Problem

HERE = Path(__file__).parent / "node"
SUPERVISE = HERE / "supervise.sh"
START = HERE / "start.sh"
INIT = "/usr/local/lib/lab/init"
SCRIPTS = ("supervise.sh", "start.sh", "node.sh", "init")
START_SECONDS = 120
END_SECONDS = 60
_ENVIRONMENT = {"PATH": PATH, "LC_ALL": "C.UTF-8"}
_NAMESPACES = ("--mount", "--uts", "--ipc", "--net", "--pid")
_UNSHARE = ("unshare", *_NAMESPACES, "--fork", "--kill-child", "--propagation", "private", "bash")


def _read(pid: str | int, file: str) -> str:
    """A file of a process in /proc; empty if the process has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/{file}").read_text(errors="replace")
    return ""


def _processes() -> Iterator[tuple[int, list[str]]]:
    """Process id and command line of every process."""
    pids = filter(str.isdigit, os.listdir("/proc"))  # noqa: PTH208 - the names alone, often
    return ((int(pid), _read(pid, "cmdline").rstrip("\0").split("\0")) for pid in pids)


def _is_init(pid: int) -> bool:
    state, _, ids = _read(pid, "status").partition("NSpid:")
    return "State:\tZ" not in state and ids.partition("\n")[0].split()[1:][-1:] == ["1"]


def supervisor(state: Path) -> int | None:
    """Process id of the laboratory in this folder; None if none runs."""
    own = [str(SUPERVISE), str(state)]
    return next((pid for pid, words in _processes() if words[1:] == own and _is_init(pid)), None)


def nodes(state: Path) -> dict[str, int]:
    """Process ids of the running nodes' inits, by node name."""
    ours = [(pid, words) for pid, words in _processes() if len(words) == 4 and words[1:3] == [INIT, str(state)]]
    return {words[3]: pid for pid, words in ours if _is_init(pid)}


def is_node(pid: int, state: Path, name: str) -> bool:
    """Whether this process is a running node's init; much faster than a search for it."""
    return _read(pid, "cmdline").endswith(f"\0{INIT}\0{state}\0{name}\0") and _is_init(pid)


def start_supervisor(state: Path, log: Path) -> int:
    """Start the laboratory's first process; returns when its file systems and its bridge exist."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*_UNSHARE, str(SUPERVISE), str(state)],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, cwd="/", env=_ENVIRONMENT,
        )  # fmt: skip
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        pid = supervisor(state)
        if pid and Path(f"/proc/{pid}/root{state}/live/ready").exists():
            return pid
        time.sleep(0.02)
    end(state)
    raise Problem(f"cannot create the laboratory's namespaces: {log.read_text()[-500:].strip() or 'no message'}")


def start_nodes(state: Path, pid: int, names: Sequence[str]) -> None:
    """Start nodes whose folders are written; returns when their inits run."""
    inside(pid, ["bash", str(START), str(state), *names])
    deadline = time.monotonic() + START_SECONDS
    while not set(names) <= set(nodes(state)):
        if time.monotonic() > deadline:
            logs = "\n".join((state / "nodes" / name / "log").read_text()[-300:] for name in names)
            raise Problem(f"not all nodes started: {logs.strip()}")
        time.sleep(0.02)


def inside(pid: int, line: Sequence[str]) -> None:
    """Run a command in the supervisor's namespaces, with the host's root file system.

    Raises:
        Problem: it failed.
    """
    result = subprocess.run(
        ["nsenter", "-t", str(pid), *_NAMESPACES, "--", *line],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, check=False, cwd="/", env=_ENVIRONMENT,
    )  # fmt: skip
    if result.returncode:
        raise Problem(f"in the laboratory, `{' '.join(line)}` failed:\n{result.stdout.strip()}")


def enter(pid: int, group: str, controllers: Sequence[str]) -> list[str]:
    """The start of a command line that runs in a node: in its control group, its namespaces and its root."""
    join = "; ".join([f"echo 0 >/sys/fs/cgroup/{name}/{group}/cgroup.procs" for name in controllers] + ['exec "$@"'])
    root = f"/proc/{pid}/root"
    nsenter = ["nsenter", "-t", str(pid), *_NAMESPACES, "--cgroup", f"--root={root}", f"--wd={root}", "--"]
    return ["bash", "-c", join, "enter", *nsenter]


def kill(state: Path, node: str) -> None:
    """Kill a node with everything in its pid namespace; returns when it has ended."""
    if pid := nodes(state).get(node):
        _kill([pid])
        _wait(lambda: [one for one, words in _ours(state) if words[-1] == node])


def end(state: Path) -> None:
    """Kill all processes of the laboratory in a folder; returns when they have ended."""
    _kill([pid for pid, _ in _ours(state)])
    _wait(lambda: [pid for pid, _ in _ours(state)])


def _ours(state: Path) -> list[tuple[int, list[str]]]:
    """A laboratory's inits, and their parents, which wait until the last process of the namespace has ended."""
    return [
        (pid, words)
        for pid, words in _processes()
        if str(state) in words and Path(words[words.index(str(state)) - 1]).name in SCRIPTS
    ]


def _kill(pids: Sequence[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _wait(left: Callable[[], list[int]]) -> None:
    deadline = time.monotonic() + END_SECONDS
    while pids := left():
        if time.monotonic() > deadline:
            raise Problem(f"processes {pids} of the laboratory do not end; see /proc/<id>/stack")
        time.sleep(0.02)

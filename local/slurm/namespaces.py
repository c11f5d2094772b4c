"""Finding, entering and ending the processes that a laboratory consists of.

There is no file of process ids that could be out of date: the kernel's own list is searched for the inits, which
carry the laboratory's
folder in their command lines and are number 1 of a pid namespace.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ops.problem import Problem

HERE = Path(__file__).parent / "node"
SUPERVISE = HERE / "supervise.sh"
START = HERE / "start.sh"
INIT = "/usr/local/lib/lab/init"
# What carries the laboratory's folder as its argument.
SCRIPTS = ("supervise.sh", "start.sh", "node.sh", "init")
START_SECONDS = 30
END_SECONDS = 10


def _inits() -> list[tuple[int, list[str]]]:
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            arguments = (folder / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
            if len(arguments) < 3 or not (arguments[1].endswith("supervise.sh") or arguments[1] == INIT):
                continue
            status = (folder / "status").read_text()
        except OSError:
            continue  # ended while we looked
        numbers = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[1:]
        zombie = "State:\tZ" in status
        if len(numbers) > 1 and numbers[-1] == "1" and not zombie:
            found.append((int(folder.name), arguments))
    return found


def supervisor(state: Path) -> int | None:
    """Process id of the laboratory in this folder; None where none runs."""
    wanted = [str(SUPERVISE), str(state)]
    return next((pid for pid, arguments in _inits() if arguments[1:] == wanted), None)


def nodes(state: Path) -> dict[str, int]:
    """Process ids of the running nodes' inits, by the nodes' names."""
    return {
        arguments[3]: pid for pid, arguments in _inits() if arguments[1:3] == [INIT, str(state)] and len(arguments) == 4
    }


def start_supervisor(state: Path, log: Path) -> int:
    """Start the laboratory's first process and wait until its file systems and its bridge stand."""
    line = [
        "unshare",
        "--mount",
        "--net",
        "--ipc",
        "--uts",
        "--pid",
        "--fork",
        "--kill-child",
        "--propagation",
        "private",
    ]
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*line, "bash", str(SUPERVISE), str(state)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd="/",
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"},
        )
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        pid = supervisor(state)
        if pid and Path(f"/proc/{pid}/root{state}/live/ready").exists():
            return pid
        time.sleep(0.02)
    end(state)
    raise Problem(f"the laboratory's namespaces cannot be made: {log.read_text()[-500:].strip() or 'no answer'}")


def start_nodes(state: Path, pid: int, names: Sequence[str]) -> None:
    """Start nodes whose folders are written; returns when their inits run."""
    inside(pid, ["bash", str(START), str(state), *names])
    deadline = time.monotonic() + START_SECONDS
    while not set(names) <= set(nodes(state)):
        if time.monotonic() > deadline:
            logs = "\n".join((state / "nodes" / name / "log").read_text()[-300:] for name in names)
            raise Problem(f"not all nodes started: {logs.strip()}")
        time.sleep(0.02)


def inside(pid: int, line: Sequence[str], *, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command in the supervisor's namespaces, with the host's root file system.

    Raises:
        Problem: it failed.
    """
    result = subprocess.run(
        ["nsenter", "-t", str(pid), "-m", "-n", "-p", "-i", "-u", "--", *line],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
        cwd="/",
        env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"},
    )
    if result.returncode:
        raise Problem(f"in the laboratory, `{' '.join(line)}` failed:\n{result.stdout.strip()}")
    return result


def enter(pid: int, group: str, controllers: Sequence[str]) -> list[str]:
    """The beginning of a command line that runs in a node: in its control group, its namespaces and its root."""
    join = "; ".join([f"echo 0 >/sys/fs/cgroup/{name}/{group}/cgroup.procs" for name in controllers] + ['exec "$@"'])
    namespaces = [f"--{name}" for name in ("mount", "uts", "ipc", "net", "pid", "cgroup")]
    return [
        "bash",
        "-c",
        join,
        "enter",
        "nsenter",
        "-t",
        str(pid),
        *namespaces,
        f"--root=/proc/{pid}/root",
        f"--wd=/proc/{pid}/root",
        "--",
    ]


def kill(state: Path, node: str) -> None:
    """End a node, and with it everything in its pid namespace, without a word; wait until it is gone."""
    pid = nodes(state).get(node)
    if pid:
        _kill([pid])
        _wait(lambda: [one for one, words in _ours(state) if words[-1] == node])


def end(state: Path) -> None:
    """End everything of the laboratory in a folder, whatever is left of it; wait until it is gone."""
    _kill([pid for pid, _ in _ours(state)])
    _wait(lambda: [pid for pid, _ in _ours(state)])


def _ours(state: Path) -> list[tuple[int, list[str]]]:
    """The inits of a laboratory, and the parents that wait for them until the last process of their namespaces is
    gone.
    """
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
        except OSError:
            continue
        if str(state) in words and Path(words[words.index(str(state)) - 1]).name in SCRIPTS:
            found.append((int(folder.name), words))
    return found


def _kill(pids: Sequence[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _wait(left: Callable[[], list[int]]) -> None:
    deadline = time.monotonic() + END_SECONDS
    while pids := left():
        if time.monotonic() > deadline:
            raise Problem(f"processes {pids} of the laboratory do not end; look at /proc/<id>/stack")
        time.sleep(0.02)

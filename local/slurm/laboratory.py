"""A laboratory: start it, run commands on its nodes, kill and restart nodes, end it."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from local.slurm import base, files, host, namespaces, shares
from local.slurm.host import PATH
from local.slurm.plan import HEAD_NAME, PLAN_FILE, Node, Plan
from ops.problem import Problem

READY_SECONDS = 600
"""Limit of each wait: a busy machine takes several times what a free one takes."""
POLL_SECONDS = 0.1, 0.5
"""First and longest pause of a wait: each look is a command on a node."""
# As "bootstrap slurm database" (aws-parallelcluster-cookbook 195e846, recipes/config/config_slurm_accounting.rb).
_ACCOUNTS = """set -e
sacctmgr -iQ add cluster {cluster}
sacctmgr -iQ add account pcdefault Cluster={cluster} Description="ParallelCluster default account" Organization=none
sacctmgr -iQ add user slurm Account=pcdefault AdminLevel=Admin
sacctmgr -iQ add user {user} Account=pcdefault AdminLevel=Admin
"""
ENDS = frozenset({"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL"})


class Laboratory:
    """The laboratory whose files are in `state`. Creating the object starts nothing.

    Several can run at once, one per folder. All processes are children of one process in its own namespaces, so the
    host's network, mounts and process groups do not change.
    """

    def __init__(self, state: Path) -> None:
        self.state = state.resolve()
        self.group = "trainyard-lab-" + hashlib.sha256(str(self.state).encode()).hexdigest()[:12]
        self._plan: Plan | None = None
        self._pids: dict[str, int] = {}

    # --- life ---

    def up(
        self,
        plan: Plan,
        *,
        report: Callable[[str], None] | None = None,
        before_slurmd: Callable[[], None] | None = None,
    ) -> None:
        """Start the laboratory. One that runs in this folder is ended first.

        Args:
            plan: what to start.
            report: called with a line of text before slow work.
            before_slurmd: called after slurmctld starts and before slurmd does, when ParallelCluster runs custom
                actions.

        Raises:
            Unavailable: this host cannot run a laboratory.
            Problem: it did not start; the message ends with the failed command's output. Nothing is left running.
        """
        host.check()
        os.umask(0o022)  # users of the nodes read what is written here, whatever the umask of the user or the emulator
        root = base.ensure(plan.base, report)
        self.down()
        self.state.mkdir(parents=True, exist_ok=True)
        self._plan = plan
        (self.state / "plan.json").write_bytes(PLAN_FILE.dump_json(plan))
        try:
            self._prepare(plan, root)
            pid = namespaces.start_supervisor(self.state, self.state / "log")
            shares.fill(plan, Path(f"/proc/{pid}/root{self.state}/live/shared"), host.controllers())
            namespaces.start_nodes(self.state, pid, [node.name for node in plan.nodes])
            self._start_services(plan, before_slurmd)
        except BaseException:
            namespaces.end(self.state)
            host.remove_group(self.group)
            raise

    def down(self) -> None:
        """End the laboratory's processes; remove its control groups and files. Raises Problem for another folder."""
        if self.state.is_dir() and any(self.state.iterdir()) and not (self.state / "plan.json").is_file():
            raise Problem(f"{self.state} has other files and no laboratory; give an empty folder")
        namespaces.end(self.state)
        if self.state.is_dir():
            for node in (self.state / "nodes").glob("*"):
                host.remove_group(f"{self.group}/{node.name}")
            host.remove_group(self.group)
            shutil.rmtree(self.state / "nodes", ignore_errors=True)  # before plan.json: this can be interrupted
            shutil.rmtree(self.state)
        self._plan = None

    @property
    def running(self) -> bool:
        """Whether the laboratory runs."""
        return namespaces.supervisor(self.state) is not None

    @property
    def plan(self) -> Plan:
        """The plan that this laboratory was started with."""
        if self._plan is None:
            file = self.state / "plan.json"
            if not file.is_file():
                raise Problem(f"there is no laboratory in {self.state}; start one with `trainyard lab up`")
            self._plan = PLAN_FILE.validate_json(file.read_bytes())
        return self._plan

    # --- nodes ---

    def pid(self, node: str = HEAD_NAME) -> int:
        """Process id of a node's init, as the host sees it.

        Raises:
            Problem: no such node runs; the message names those that do.
        """
        name, running = self.node(node).name, self._pids
        if not namespaces.is_node(running.get(name, 0), self.state, name):
            running = self._pids = namespaces.nodes(self.state)
        if name not in running:
            raise Problem(f"the node '{name}' does not run; running: {', '.join(sorted(running)) or 'none'}")
        return running[name]

    def node(self, name: str) -> Node:
        """The node of a name; `head` is the head node, `login` the first login node."""
        logins = self.plan.logins
        wanted = HEAD_NAME if name == "head" else logins[0].name if name == "login" and logins else name
        for node in self.plan.nodes:
            if node.name == wanted:
                return node
        raise Problem(f"no node '{name}'; there are: {', '.join(node.name for node in self.plan.nodes)}")

    def line(
        self, command: Sequence[str] | str, *, node: str = "head", user: str = "", env: Mapping[str, str] | None = None
    ) -> list[str]:
        """The command line on this host that runs a command on a node, with a login's environment and `env`.

        A string is run by `bash -l`, a sequence as it is; `user` is the cluster's user by default.
        """
        user = user or self.plan.user
        home = "/root" if user == "root" else f"/home/{user}"
        variables = {"PATH": PATH, "HOME": home, "USER": user, "LOGNAME": user, "SHELL": "/bin/bash", "LANG": "C.UTF-8"}
        variables |= env or {}
        arguments = ["bash", "-lc", command] if isinstance(command, str) else list(command)
        become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--"] if user != "root" else []
        into = namespaces.enter(self.pid(node), f"{self.group}/{self.node(node).name}", host.controllers())
        work = ["env", "-i", *(f"{name}={value}" for name, value in variables.items()), *become]
        folder = ["bash", "-c", 'cd "$HOME" && exec "$@"', "home"]
        return [*into, *work, *folder, *arguments]

    def run(
        self,
        command: Sequence[str] | str,
        *,
        node: str = "head",
        user: str = "",
        env: Mapping[str, str] | None = None,
        check: bool = True,
        timeout: float = 120,
        stdin: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on a node to its end.

        Raises:
            Problem: its exit status is not 0, and `check` is true.
            subprocess.TimeoutExpired: it took longer than `timeout` seconds.
        """
        result = subprocess.run(
            self.line(command, node=node, user=user, env=env),
            input=stdin or "", capture_output=True, text=True, timeout=timeout, check=False, cwd="/",
        )  # fmt: skip
        if check and result.returncode:
            shown = command if isinstance(command, str) else shlex.join(command)
            raise Problem(
                f"on {node}: `{shown}` ended with {result.returncode}\n"
                f"{result.stdout[-3000:]}\n{result.stderr[-3000:]}".rstrip()
            )
        return result

    def output(self, command: Sequence[str] | str, *, node: str = "head", user: str = "") -> str:
        """The stdout of a command that must succeed, stripped."""
        return self.run(command, node=node, user=user).stdout.strip()

    def path(self, path: str, *, node: str = "head") -> Path:
        """A node's path as seen from this host. Absolute symbolic links resolve on the host."""
        return Path(f"/proc/{self.pid(node)}/root{path}")

    def write(self, path: str, text: str, *, node: str = "head", user: str = "", mode: int = 0o644) -> None:
        """Write a file on a node as a user, with its folders."""
        script = 'mkdir -p -- "$(dirname -- "$1")" && cat >"$1" && chmod "$2" -- "$1"'
        self.run(["bash", "-c", script, "write", path, f"{mode:o}"], node=node, user=user, stdin=text)

    def kill(self, node: str) -> None:
        """A power loss: all processes of the node end at once, without notice."""
        name = self.node(node).name
        self.pid(name)  # it must run
        namespaces.kill(self.state, name)
        script = 'ip link del "veth$1" 2>/dev/null; ip netns del "$2"'
        namespaces.inside(self._supervisor(), ["bash", "-c", script, "forget", str(self.node(name).index), name])
        host.remove_group(f"{self.group}/{name}")

    def start(self, node: str, *, slurmd: bool = True) -> None:
        """Start a killed node as a new instance, with a fresh root and an empty scratch.

        Returns when Slurm uses it, or with `slurmd=False` before slurmd starts; then call `join`.
        """
        name = self.node(node).name
        if name in namespaces.nodes(self.state):
            return
        namespaces.start_nodes(self.state, self._supervisor(), [name])
        self._services(name, "munge")
        if slurmd:
            self.join(name)

    def join(self, node: str) -> None:
        """Start slurmd on a node, and wait until Slurm uses it."""
        self._services(node, "slurmd")
        self.wait_for_nodes(node)

    # --- Slurm ---

    def wait(self, condition: Callable[[], bool], what: str, *, seconds: float = READY_SECONDS) -> None:
        """Wait until a condition holds.

        Raises:
            Problem: it does not within `seconds`; the message has `what`, sinfo and squeue.
        """
        deadline, (pause, longest) = time.monotonic() + seconds, POLL_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                shown = self.run("sinfo -N -l; squeue -l", check=False)
                raise Problem(f"not after {seconds:g} s: {what}\n{shown.stdout}")
            time.sleep(pause)
            pause = min(1.25 * pause, longest)

    def wait_for_nodes(self, *names: str, states: Sequence[str] = ("idle", "mix", "alloc")) -> None:
        """Wait until nodes (all compute nodes by default) are in one of the states of `sinfo -o %t`."""
        wanted = set(names or (node.name for node in self.plan.compute))

        def reached() -> bool:
            lines = self.run(["sinfo", "-hN", "-o", "%N %t"], user="root", check=False).stdout.splitlines()
            return wanted <= {line.split()[0] for line in lines if line.split()[1] in states}

        self.wait(reached, f"{', '.join(sorted(wanted))} in {' or '.join(states)}")

    def job(self, job: str) -> dict[str, str]:
        """The fields of `scontrol show job`; empty for an unknown job."""
        text = self.run(["scontrol", "-o", "show", "job", job], user="root", check=False).stdout
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def wait_for_job(
        self, job: str, *, states: Sequence[str] = ("COMPLETED",), seconds: float = READY_SECONDS
    ) -> dict[str, str]:
        """Wait until a job is in one of the states.

        Raises:
            Problem: it ended in another state, or does not reach one within `seconds`.
        """
        found: dict[str, str] = {}

        def reached() -> bool:
            found.clear()
            found.update(self.job(job))
            return found.get("JobState") in {*states, *ENDS}

        self.wait(reached, f"job {job} {' or '.join(states)}", seconds=seconds)
        if found["JobState"] not in states:
            said = self.run(["tail", "-n", "20", found.get("StdOut", "")], check=False).stdout
            raise Problem(f"job {job} is {found['JobState']}, not {' or '.join(states)}: {found}\n{said}")
        return dict(found)

    # --- inner parts ---

    def _supervisor(self) -> int:
        if (pid := namespaces.supervisor(self.state)) is None:
            raise Problem(f"the laboratory in {self.state} does not run")
        return pid

    def _prepare(self, plan: Plan, root: Path) -> None:
        (self.state / "shared").write_text("".join(f"{one.name} {one.size_mib}\n" for one in plan.shared))
        for node in plan.nodes:
            folder = self.state / "nodes" / node.name
            files.write_node(
                plan, node, folder, base=root, group=f"{self.group}/{node.name}", controllers=host.controllers()
            )

    def _services(self, node: str, *units: str) -> None:
        self.run(["systemctl", "start", *units], node=node, user="root")

    def _start_services(self, plan: Plan, before_slurmd: Callable[[], None] | None) -> None:
        with ThreadPoolExecutor(max_workers=8) as pool:
            # munged on the head node and the database side by side; then what needs them.
            aws = pool.submit(self._services, plan.aws.name, "mariadb", "imds", "registry")
            self._services(plan.head.name, "munge")
            munges = [pool.submit(self._services, node.name, "munge") for node in (*plan.logins, *plan.compute)]
            aws.result()
            self.run("chown slurm: /opt/slurm/etc/slurmdbd.conf && chmod 600 /opt/slurm/etc/slurmdbd.conf", user="root")
            self._services(plan.head.name, "slurmdbd")
            self.run(_ACCOUNTS.format(cluster=plan.environment.cluster_name, user=plan.user), user="root")
            self._services(plan.head.name, "slurmctld")
            for munge in munges:
                munge.result()
            if before_slurmd:
                before_slurmd()
            for daemon in [pool.submit(self._services, node.name, "slurmd") for node in plan.compute]:
                daemon.result()
        self.wait_for_nodes()

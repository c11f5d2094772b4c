"""Watches a training job from its first node: ends it when it hangs, and names the ranks and nodes at fault.

    watchdog.py watch FOLDER --pid PID ...   while the launcher PID runs; ends it when it hangs
    watchdog.py inspect FOLDER --node NODE   on a node: the state and the stacks of its ranks, as JSON
    watchdog.py deputy FOLDER ...            on another node: requeues the job when the watchdog has no heartbeat

FOLDER is on the shared file system and belongs to one attempt:

    progress/RANK   the last step (training/progress.py)
    nodes/NODE      "running SLURM_STEP TIME" every 5 s, then "ended STATUS" or "orphaned" (node-launch.sh)
    ranks, stacks, flight, failures   files of the ranks (rank.py)
    verdict.json    why the watchdog ended the attempt

Exit code of watch: 124 if it ended the attempt and could not write the verdict. The standard library only, Python 3.9
or later.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import flight_recorder
from records import files, history, last_step, load, read, regular, run, say, size, write_json
from status import Status

if TYPE_CHECKING:
    from collections.abc import Iterator

STACKS = signal.SIGRTMIN + 10  # as rank.py
# The limit of a stall is at least this many times the longest pause of the run so far, so that an evaluation or a
# checkpoint does not count as a hang.
PAUSES = 4
# The watchdog's own heartbeat, in the folder of the nodes' files.
HEARTBEAT = ".watchdog"
# How often the deputy reads it, and the least silence before it acts: the watchdog may be starting again.
DEPUTY_PAUSE_S, DEPUTY_S = 2, 120
# For the answer of a node, and of its ranks.
NODE_S, RANKS_S = 60, 10
BLOCKED = "waiting for a device or a file system"
STATES = {"T": "stopped", "t": "stopped", "D": BLOCKED, "Z": "dead"}


# --- watch


class Clock:
    """When a value last changed, by this process's clock: those of the nodes need not agree."""

    def __init__(self) -> None:
        self.value: object = None
        self.changed = time.monotonic()
        self.longest = 0.0

    def see(self, value: object) -> float:
        """Seconds since the last change."""
        now = time.monotonic()
        if value != self.value:
            self.longest = max(self.longest, now - self.changed) if self.value else 0.0
            self.value, self.changed = value, now
        return now - self.changed


class Watch:
    """The watchdog of one attempt."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.folder: Path = options.folder
        self.nodes = {name: Clock() for name in options.nodes.split(",")}
        self.steps, self.output = Clock(), Clock()
        earlier = history(options.history)
        self.factor = 2 ** min(4, sum(one["kind"] == "stall" and not one["certain"] for one in earlier))

    def fault(self) -> dict[str, Any] | None:
        """What is wrong now: its kind, a text, and the nodes without a heartbeat."""
        options, silent, orphaned, ages = self.options, [], [], []
        for name, clock in self.nodes.items():
            text = read(self.folder / "nodes" / name)
            age = clock.see(text)
            if text.startswith("running"):
                ages.append(age)
                if age > options.silence:
                    silent.append(name)
            elif text == "orphaned":
                orphaned.append(name)
        if orphaned:
            return {"kind": "daemon", "text": f"no step daemon on {', '.join(orphaned)}", "nodes": orphaned}
        if silent:
            text = f"no heartbeat from {', '.join(silent)} for {options.silence} s"
            return {"kind": "silence", "text": text, "nodes": silent}
        if not ages and any(clock.value for clock in self.nodes.values()):
            age = min(time.monotonic() - clock.changed for clock in self.nodes.values())
            if age > options.silence:
                return {"kind": "srun", "text": f"srun runs {age:.0f} s after the last node has ended", "nodes": []}
        marks = {path.name: at.st_mtime_ns for path in files(self.folder / "progress") if (at := regular(path))}
        sizes = [at.st_size for path in options.output if (at := regular(path))]
        if marks:
            kind, clock, least, pause = "step", self.steps, options.stall, self.steps.see(marks)
        elif sizes:
            kind, clock, pause = "step and no output", self.output, self.output.see(sum(sizes))
            least = max(options.stall, options.start)
        else:
            return None  # output that goes to a terminal or to /dev/null shows nothing
        limit = max(least, PAUSES * clock.longest) * self.factor
        if options.stall and pause > limit:
            text = f"no {kind} for {pause:.0f} s (limit {limit:.0f} s)"
            return {"kind": "stall", "text": text, "nodes": []}
        return None

    def reset(self) -> None:
        """Start all clocks again: this process itself did not run, so it has missed heartbeats."""
        for clock in (*self.nodes.values(), self.steps, self.output):
            clock.changed = time.monotonic()

    def heartbeat(self) -> None:
        """Show the deputy that the watchdog is alive."""
        with contextlib.suppress(OSError):
            (self.folder / "nodes" / HEARTBEAT).write_text(f"{os.getpid()} {time.time()}\n")

    @contextlib.contextmanager
    def heartbeats(self, pause: float) -> Iterator[None]:
        """Send heartbeats from a thread: examining many nodes or files can take longer than the deputy waits."""
        done = threading.Event()

        def repeat() -> None:
            while not done.wait(pause):
                self.heartbeat()

        threading.Thread(target=repeat, daemon=True, name="heartbeat").start()
        try:
            yield
        finally:
            done.set()

    def loop(self) -> int:
        """Watch until the launcher has ended. Returns the exit code."""
        pause = max(0.5, min(self.options.silence, self.options.stall or 60) / 10)
        with self.heartbeats(pause):
            while alive(self.options.pid):
                begun = time.monotonic()
                # Here too: where writing blocks, the nodes' heartbeats stop too, and the clocks start again below.
                self.heartbeat()
                found = self.fault()
                if time.monotonic() - begun > self.options.silence / 2:
                    self.reset()
                elif found:
                    return self.end(found)
                time.sleep(pause)
                if time.monotonic() - begun > pause + self.options.silence / 2:
                    self.reset()
        return 0

    def end(self, found: dict[str, Any]) -> int:
        """Examine the ranks, record the verdict, and end the step and its launcher. Returns the exit code."""
        say(found["text"] + "; examining the ranks")
        step = next((words[1] for words in map(str.split, self.values()) if words[:1] == ["running"]), "")
        nodes = dict.fromkeys(found["nodes"], found["text"])
        verdict = {**found, "step": last_step(self.folder), "certain": bool(nodes), "nodes": nodes, "lines": []}
        code = 0
        try:
            verdict = judge(found, examine(self.folder, list(self.nodes)), self.folder)
        except Exception as problem:  # whatever it is, the attempt must end
            say(f"WARNING: cannot examine the ranks: {problem!r}")
        for line in verdict["lines"]:
            say(line)
        try:
            write_json(self.folder / "verdict.json", verdict)
        except OSError as problem:
            say(f"WARNING: cannot write the verdict: {problem}")
            code = 124
        if step:
            run(["scancel", f"{self.options.job}.{step}"], 60)
        deadline = time.monotonic() + 15
        while alive(self.options.pid) and time.monotonic() < deadline:
            time.sleep(0.5)
        for pid in reversed(tree(self.options.pid)):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        return code

    def values(self) -> list[str]:
        """What the nodes last wrote."""
        return [str(clock.value or "") for clock in self.nodes.values()]


def deputy(options: argparse.Namespace) -> None:
    """Requeue the job when its script and watchdog are gone. Slurm would find out after BatchStartTimeout."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # the request for a checkpoint goes to all steps
    clock, limit = Clock(), max(2 * options.silence, DEPUTY_S)
    age, before = 0.0, time.monotonic()
    while age < limit:
        time.sleep(DEPUTY_PAUSE_S)
        text = read(options.folder / "nodes" / HEARTBEAT)
        if text == "ended":
            return
        # Without a heartbeat (a full or failing file system), and after a long round (the file system hung, or the job
        # was suspended), the count starts again: the deputy may have missed some, and may read an old one first.
        if not text or time.monotonic() - before > DEPUTY_PAUSE_S + options.silence / 2:
            clock = Clock()
        before, age = time.monotonic(), clock.see(text)
    about = {"kind": "silence", "text": f"no heartbeat from the job's script for {limit} s", "certain": True}
    nodes = {options.nodes: "lost the job's script"}
    with contextlib.suppress(OSError):
        write_json(options.folder / "verdict.json", {**about, "nodes": nodes, "step": last_step(options.folder)})
    run(["scontrol", "requeue", options.job], 60)


def alive(pid: int) -> bool:
    """Whether a process exists."""
    return Path(f"/proc/{pid}").exists()


def tree(pid: int) -> list[int]:
    """A process and its descendants."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        words = read(path).rpartition(")")[2].split()
        if words:
            children.setdefault(int(words[1]), []).append(int(path.parent.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


# --- examine


def examine(folder: Path, nodes: list[str]) -> dict[str, dict[str, Any]]:
    """The state of each node's ranks; `error` where it does not answer, and whether Slurm has lost it too (`down`)."""

    def ask(node: str) -> dict[str, Any]:
        words = ["srun", "--overlap", "--mpi=none", "--nodes=1", "--ntasks=1", "--mem=0", f"--nodelist={node}"]
        words += [sys.executable, str(Path(__file__).resolve()), "inspect", str(folder), "--node", node]
        status, output = run(["timeout", "--kill-after=5", str(NODE_S), *words], NODE_S + 15)
        try:
            answer: dict[str, Any] = json.loads(output.splitlines()[-1])
            return answer
        except (ValueError, IndexError):
            text = f"no answer (srun ended with {status}: {' '.join(output.split())[:200]})"
        status, output = run(["sinfo", "--noheader", f"--nodes={node}", "--format=%T"], 60)
        return {"error": text, "down": status == 0 and ("down" in output or "*" in output)}

    with ThreadPoolExecutor(max_workers=16) as pool:
        return dict(zip(nodes, pool.map(ask, nodes)))  # noqa: B905 -- Python 3.9


def state(pid: int) -> str:
    """The state of a rank's process."""
    found, command = (read(Path(f"/proc/{pid}/{name}")) for name in ("stat", "cmdline"))
    return STATES.get(found.rpartition(")")[2].split()[0], "running") if found and "rank.py" in command else "gone"


def inspect(folder: Path, node: str) -> dict[str, Any]:
    """On a node: signal its ranks, wait for their stacks and flight recorders, and report their states."""
    words = [*read(folder / "nodes" / node).split(), "", ""]
    mine = {path.name: one for path in files(folder / "ranks") if (one := load(path)) and one["node"] == node}
    if words[0] == "ended":
        mine = {}  # with an error of the program or of another rank
    states = {rank: state(one["pid"]) for rank, one in mine.items()}
    asked = {}
    for rank in [rank for rank, found in states.items() if found in ("running", BLOCKED)]:
        stacks, recorder = folder / "stacks" / rank, folder / "flight" / rank
        asked[rank] = (stacks, size(stacks), recorder, recorder.exists())
        with contextlib.suppress(ProcessLookupError):
            os.kill(mine[rank]["pid"], STACKS)
        for pipe in (folder / "flight" / f".python-{rank}.pipe", folder / "flight" / f".nccl-{rank}.pipe"):
            with contextlib.suppress(OSError):
                end = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
                os.write(end, b"1\n")
                os.close(end)
    deadline = time.monotonic() + RANKS_S
    while time.monotonic() < deadline:
        if all(size(stacks) > before and (old or new.exists()) for stacks, before, new, old in asked.values()):
            break
        time.sleep(0.2)
    for rank, (stacks, before, *_) in asked.items():
        states[rank] = "running"
        if size(stacks) == before:  # for RANKS_S: one sample of a state shows little
            now = state(mine[rank]["pid"])
            states[rank] = "does not handle signals" if now == "running" else now
    daemon = f"slurmstepd: [{os.environ.get('SLURM_JOB_ID', '')}.{words[1]}]"
    found = any(read(path).startswith(daemon) for path in Path("/proc").glob("[0-9]*/cmdline"))
    return {"state": words[0], "daemon": found, "ranks": states}


# --- judge


def judge(found: dict[str, Any], answers: dict[str, dict[str, Any]], folder: Path) -> dict[str, Any]:
    """The verdict: the ranks and nodes at fault, and a line for each thing that was found."""
    lines: list[str] = []
    gone = "its step daemon is gone"
    nodes = dict.fromkeys(found["nodes"], gone if found["kind"] == "daemon" else "no heartbeat")
    for node, answer in answers.items():
        if nodes.get(node) == gone:
            continue  # its launcher said so; srun may not reach a node whose slurmd died, too
        if "error" in answer:  # srun fails for other reasons too
            if answer["down"] or node in nodes:
                nodes[node] = answer["error"]
            else:
                lines.append(f"{node}: {answer['error']}")
        elif not answer["state"]:
            nodes[node] = "its launcher did not start"
        elif answer["state"] != "ended" and not answer["daemon"]:
            nodes[node] = gone
    lines += [f"{node}: {text}" for node, text in nodes.items()]
    places = {int(path.name): str(one["node"]) for path in files(folder / "ranks") if (one := load(path))}
    ranks = {
        int(rank): state for answer in answers.values() for rank, state in answer.get("ranks", {}).items()
        if state != "running" and places.get(int(rank)) not in nodes
    }  # fmt: skip
    lines += [f"rank {rank} on {places.get(rank)}: {state}" for rank, state in sorted(ranks.items())]
    texts, late = flight_recorder.late(folder / "flight")
    lines += texts
    # A rank that others wait for may have a reason, such as a long evaluation.
    certain = bool(nodes or ranks)
    if not certain:
        ranks = dict.fromkeys(late, "did not arrive at a collective")
    for rank, state in ranks.items():
        if rank in places:
            nodes.setdefault(places[rank], f"rank {rank}: {state}")
    if found["nodes"] == [] and len(nodes) > max(1, len(answers) // 4):
        lines.append(f"{len(nodes)} of {len(answers)} nodes are concerned, too many to exclude them")
        nodes = {}
    lines.append(f"stacks and flight recorders of the ranks: {folder}")
    about = {"text": found["text"], "kind": found["kind"], "step": last_step(folder), "certain": certain}
    return {**about, "nodes": nodes, "ranks": {str(rank): state for rank, state in ranks.items()}, "lines": lines}


def main(arguments: list[str]) -> int:
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="watchdog.py", description="Watches a training job.")
    commands = parser.add_subparsers(dest="command", required=True)
    watcher, inspector, replacement = (commands.add_parser(name) for name in ("watch", "inspect", "deputy"))
    for command in (watcher, inspector, replacement):
        command.add_argument("folder", type=Path)
    inspector.add_argument("--node", required=True)
    for command in (watcher, replacement):
        command.add_argument("--nodes", required=True)
        command.add_argument("--job", required=True)
        command.add_argument("--silence", type=int, required=True)
    watcher.add_argument("--history", type=Path, required=True)
    watcher.add_argument("--output", type=Path, action="append", default=[])
    watcher.add_argument("--status", type=Path, help="file for the progress of the job (status.py)")
    for name in ("--pid", "--stall", "--start"):
        watcher.add_argument(name, type=int, required=True)
    options = parser.parse_args(arguments)
    if options.command == "watch":
        metrics = options.history.parents[1] / "metrics.jsonl"
        status = Status(options.folder, options.status, metrics) if options.status else None
        if status:
            status.start()
        code = Watch(options).loop()
        if status:
            status.end()
        return code
    if options.command == "deputy":
        deputy(options)
    else:
        print(json.dumps(inspect(options.folder, options.node)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

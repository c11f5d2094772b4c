"""`python -m local.slurm up|down|status|shell|run`: a real Slurm on this machine. Needs root; `make lab` runs it."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import get_args

from rich.console import Console
from rich.table import Table

from local.slurm import Laboratory, make
from local.slurm.plan import Base
from ops.problem import Problem
from settings import Faults, load

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / "environments" / "local.yaml"
INTERRUPTED = 130


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="python -m local.slurm", description=__doc__)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--name", default="lab", help="which laboratory, where there are several (default: lab)")
    common.add_argument("--state", type=Path, default=None, help="its folder (default: .trainyard/lab/NAME)")
    commands = top.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", parents=[common], help="start a laboratory; one of the same name is ended first")
    up.add_argument(
        "--environment", type=Path, default=ENVIRONMENT, help="environment file (default: environments/local.yaml)"
    )
    up.add_argument(
        "--nodes", type=int, default=2, help="compute nodes of the first compute resource with GPUs (default: 2)"
    )
    up.add_argument(
        "--count",
        action="append",
        default=[],
        metavar="QUEUE/COMPUTE=N",
        help="instead of --nodes; may be given several times",
    )
    up.add_argument(
        "--base", choices=get_args(Base), default="bookworm", help="bookworm: Slurm 22.05; trixie: Slurm 24.11"
    )
    up.add_argument(
        "--bind",
        action="append",
        default=[],
        metavar="SOURCE:TARGET",
        help="a folder of this machine, read-only on all nodes",
    )
    up.add_argument(
        "--powered-down",
        action="store_true",
        help="tell Slurm of the environment's other nodes too, so that --test-only judges as on the whole cluster",
    )
    up.add_argument("--no-bootstrap", action="store_true", help="leave the nodes as an AMI has them, with Pyxis on")
    commands.add_parser("down", parents=[common], help="end it: processes, mounts, control groups, files")
    commands.add_parser("status", parents=[common], help="show what runs")
    shell = commands.add_parser("shell", parents=[common], help="a shell on a node")
    run = commands.add_parser("run", parents=[common], help="run a command on a node; exits as it does")
    for command in (shell, run):
        command.add_argument("--node", default="head", help="a node's name (default: head)")
        command.add_argument("--user", default="", help="who (default: the cluster's user)")
    run.add_argument("line", nargs=argparse.REMAINDER, metavar="COMMAND", help="the command and its arguments")
    return top


def main(arguments: list[str]) -> int:
    """Run one command; what a user can mend comes out as text, not as a traceback."""
    options = parser().parse_args(arguments)
    laboratory = Laboratory(options.state or ROOT / ".trainyard" / "lab" / options.name)
    try:
        if options.command == "up":
            return up(laboratory, options)
        if options.command == "down":
            laboratory.down()
            return 0
        if options.command == "status":
            return status(laboratory)
        return enter(laboratory, options)
    except (Problem, Faults) as problem:
        print(f"\n{problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


def up(laboratory: Laboratory, options: argparse.Namespace) -> int:
    """Start it, and say what to do next."""
    from local.slurm import bootstrap

    started = time.monotonic()
    counts = _pairs(options.count, "=", "--count QUEUE/COMPUTE=N")
    if bad := [text for text in counts.values() if not text.isdigit()]:
        raise Problem(f"'{bad[0]}' is no number of nodes; --count wants QUEUE/COMPUTE=N")
    plan = make(
        load(options.environment),
        nodes=options.nodes,
        counts={name: int(text) for name, text in counts.items()} or None,
        base=options.base,
        powered_down=options.powered_down,
        binds={target: source for source, target in _pairs(options.bind, ":", "--bind SOURCE:TARGET").items()},
    )
    console = Console()
    if options.no_bootstrap:
        laboratory.up(plan, report=console.print, before_slurmd=lambda: bootstrap.pyxis(laboratory))
    else:
        laboratory.up(plan, report=console.print, before_slurmd=lambda: bootstrap.all_nodes(laboratory))
    version = laboratory.output(["sinfo", "--version"])
    console.print(
        f"{version}, {len(plan.compute)} compute nodes, in {time.monotonic() - started:.1f} s. "
        "`python -m local.slurm shell` goes in.",
        soft_wrap=True,
    )
    return 0


def status(laboratory: Laboratory) -> int:
    """The nodes, and what Slurm says of them."""
    from local.slurm import namespaces

    if not laboratory.running:
        print("no laboratory runs here")
        return 1
    running = namespaces.nodes(laboratory.state)
    table = Table("node", "address", "role", "instance type", "GPUs", "process", box=None)
    for node in laboratory.plan.nodes:
        table.add_row(
            node.name,
            node.address,
            node.role,
            node.instance_type,
            str(node.gpus or ""),
            str(running.get(node.name, "not running")),
        )
    Console().print(table)
    print(laboratory.output("echo; sinfo; echo; squeue", user="root"))
    return 0


def enter(laboratory: Laboratory, options: argparse.Namespace) -> int:
    """A shell, or one command, in this terminal."""
    if options.command == "shell":
        line: list[str] | str = ["bash", "-l"]
    else:
        line = options.line[1:] if options.line[:1] == ["--"] else options.line
        if not line:
            raise Problem("`run` wants a command, for example: python -m local.slurm run -- sinfo")
    terminal = {"TERM": os.environ.get("TERM", "dumb")}
    whole = laboratory.line(line, node=options.node, user=options.user, env=terminal)
    sys.stdout.flush()
    os.chdir("/")
    os.execvp(whole[0], whole)  # noqa: S606


def _pairs(texts: list[str], separator: str, form: str) -> dict[str, str]:
    found = {}
    for text in texts:
        left, sign, right = text.partition(separator)
        if not (left and sign and right):
            raise Problem(f"'{text}' is not of the form {form}")
        found[left] = right
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

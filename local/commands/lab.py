"""`trainyard lab`: Slurm on this machine. Needs root."""

from __future__ import annotations

import argparse
import os
import sys
import time

from rich.console import Console
from rich.table import Table

from local.commands.session import ROOT
from local.slurm import Laboratory, bootstrap, make, namespaces
from ops.problem import Problem
from settings import environment_file, load
from trainyard import monitoring_config

_AGAIN = "`trainyard lab shell` opens a shell."


def run(options: argparse.Namespace) -> int:
    """Run one action; returns the exit status."""
    if "/" in options.name or not options.name.strip("."):
        raise Problem(f"--name {options.name!r} is not the name of a folder")
    laboratory = Laboratory((options.state or ROOT / ".trainyard" / "lab" / options.name).resolve())
    if options.action == "up":
        _up(laboratory, options)
    elif options.action == "down":
        laboratory.down()
    elif options.action == "status":
        _status(laboratory)
    else:
        _enter(laboratory, ["bash", "-l"] if options.action == "shell" else options.line, options)
    return 0


def _up(laboratory: Laboratory, options: argparse.Namespace) -> None:
    started = time.monotonic()
    counts = _pairs(options.count, "=", "--count QUEUE/COMPUTE=N")
    if bad := [text for text in counts.values() if not text.isdigit()]:
        raise Problem(f"{bad[0]!r} is not a number of nodes; --count wants QUEUE/COMPUTE=N")
    plan = make(
        load(environment_file(options.environment)),
        nodes=options.nodes,
        counts={name: int(text) for name, text in counts.items()} or None,
        base=options.base,
        powered_down=options.powered_down,
        logins=options.logins,
        metrics_s=monitoring_config.INTERVAL_S if options.metrics else 0,
        binds={target: source for source, target in _pairs(options.bind, ":", "--bind SOURCE:TARGET").items()},
    )
    console = Console()
    before_slurmd = bootstrap.pyxis if options.no_bootstrap else bootstrap.all_nodes
    laboratory.up(plan, report=console.print, before_slurmd=lambda: before_slurmd(laboratory))
    version = laboratory.output(["sinfo", "--version"])
    seconds = time.monotonic() - started
    console.print(f"{version}, {len(plan.compute)} compute nodes, in {seconds:.1f} s. {_AGAIN}", soft_wrap=True)


def _status(laboratory: Laboratory) -> None:
    if not laboratory.running:
        raise Problem(f"No laboratory runs in {laboratory.state}. Start one with: trainyard lab up")
    running = namespaces.nodes(laboratory.state)
    table = Table("node", "address", "role", "instance type", "GPUs", "process", box=None)
    for node in laboratory.plan.nodes:
        process = str(running.get(node.name, "not running"))
        table.add_row(node.name, node.address, node.role, node.instance_type, str(node.gpus or ""), process)
    Console().print(table)
    sys.stdout.write(f"{laboratory.output('echo; sinfo; echo; squeue', user='root')}\n")


def _enter(laboratory: Laboratory, line: list[str], options: argparse.Namespace) -> None:
    terminal = {"TERM": os.environ.get("TERM", "dumb")}
    whole = laboratory.line(line, node=options.node, user=options.user, env=terminal)
    sys.stdout.flush()
    os.chdir("/")
    os.execvp(whole[0], whole)  # noqa: S606 - no shell reads the line


def _pairs(texts: list[str], separator: str, form: str) -> dict[str, str]:
    found = {}
    for text in texts:
        left, sign, right = text.partition(separator)
        if not (left and sign and right):
            raise Problem(f"{text!r} is not of the form {form}")
        found[left] = right
    return found

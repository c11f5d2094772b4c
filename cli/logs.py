"""`trainyard logs` and `support-bundle`: what the nodes, the jobs and AWS recorded."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cli.exits import DONE
from cli.files import read

if TYPE_CHECKING:
    from ops.logs import Source
    from settings import Environment

SINCE_S, JOB_SINCE_S = 3600, 24 * 3600
"""Without --since; a job's output is looked for longer."""


def logs(options: argparse.Namespace) -> int:
    """Find and follow the logs of a job, a node, the bootstrap, Slurm, health checks or the cluster.

    trainyard logs local bootstrap
    trainyard logs my.yaml --job 42 --follow --on aws
    trainyard logs my.yaml slurm --node gpu-dy-p5-3 --since 2d --on aws
    """
    from ops import logs
    from ops.problem import Problem

    if options.job and (options.node or options.topic):
        raise Problem("--job is for the output of a job alone. Leave out --node and the topic.")
    _, environment = read(options.environment)
    seconds = options.since or (JOB_SINCE_S if options.job else SINCE_S)
    since = int((time.time() - seconds) * 1000)
    wanted = logs.Wanted(options.topic or "", options.node or "", str(options.job or ""), since)
    with sources_of(options, environment) as sources:
        try:
            lines = logs.read(sources, wanted, options.lines)
        except Problem as problem:
            if not options.follow:
                raise
            lines = []
            _note(f"{problem}\nWaiting for it.")
        for line in lines:
            _print(line)
        if not lines and not options.follow:
            _note(f"No line in the last {seconds / 3600:g} h. A longer time: --since 7d")
        for line in logs.follow(sources, wanted, lines) if options.follow else ():
            _print(line)
    return DONE


@contextmanager
def sources_of(options: argparse.Namespace, environment: Environment) -> Iterator[list[Source]]:
    """Where the logs of an environment are: CloudWatch Logs, and on the emulated AWS the nodes of its laboratory."""
    from cli.verdicts import account_of, session_of
    from ops.logs import CloudWatch
    from ops.preflight.aws import Aws, require_account

    with account_of(options, start=False):
        aws = Aws(session_of(environment), environment.region)
        require_account(aws, environment)
        found: list[Source] = [CloudWatch(aws, environment)]
        if options.on == "local":
            from local.commands.session import Session
            from local.slurm import logs

            found += logs.sources(Session.open(options.environment, options.state).state, environment)
        yield found


def _print(line: object) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _note(text: str) -> None:
    sys.stderr.write(f"{text}\n")

"""`trainyard logs` and `support-bundle`: what the nodes, the jobs and AWS recorded."""

from __future__ import annotations

import argparse
import functools
import sys
import time
from typing import TYPE_CHECKING

from cli import account
from cli.exits import DONE
from cli.files import read, say
from cli.verdicts import aws_session

if TYPE_CHECKING:
    from pathlib import Path

    import boto3

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
    with aws_session(options, environment) as session:
        sources = _sources(options, environment, session)
        try:
            lines = logs.read(sources, wanted)  # all, so that --follow does not print those that --lines left out
        except Problem as problem:
            if not options.follow:
                raise
            lines = []
            _note(f"{problem}\nWaiting for it.")
        for line in lines[-options.lines :]:
            say(line, at_once=True)
        if not lines and not options.follow:
            _note(f"No line in the last {seconds / 3600:g} h. A longer time: --since 7d")
        for line in logs.follow(sources, wanted, lines) if options.follow else ():
            say(line, at_once=True)
    return DONE


def support_bundle(options: argparse.Namespace) -> int:
    """Collect versions, stacks, the cluster's state and recent logs in one archive, without secrets.

    trainyard support-bundle local
    trainyard support-bundle my.yaml --on aws --output bundle.tar.gz
    """
    from contextlib import ExitStack
    from pathlib import Path

    from botocore.exceptions import BotoCoreError, ClientError

    from ops import support_bundle
    from ops.problem import Problem

    file, environment = read(options.environment)
    at = time.time()
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(at))
    target = (options.output or Path(f"support-{environment.name}-{stamp}.tar.gz")).resolve()
    support_bundle.require_new(target)
    parts = support_bundle.local_parts(file, _state_of(options, environment))
    with ExitStack() as stack:
        try:
            session = stack.enter_context(aws_session(options, environment))
        except (Problem, BotoCoreError, ClientError) as problem:
            parts["account"] = support_bundle.missing(problem)
        else:
            sources = functools.cache(lambda: _sources(options, environment, session))
            parts |= support_bundle.account_parts(session, environment, options.environment, sources)
        failed = support_bundle.write(target, environment, parts, at)
    for line in failed:
        _note(f"Not collected: {line}")
    say(f"Wrote {target}. Read it before you pass it on: README.txt in it lists what was left out.", at_once=True)
    return DONE


def _sources(options: argparse.Namespace, environment: Environment, session: boto3.Session) -> list[Source]:
    """CloudWatch Logs, and on the emulated AWS the nodes of its laboratory, which have no agent."""
    from ops.logs import CloudWatch
    from ops.preflight.aws import Aws

    found: list[Source] = [CloudWatch(Aws(session, environment.region), environment)]
    if options.on == "local":
        from local.slurm import logs

        found += logs.sources(_state_of(options, environment), environment)
    return found


def _state_of(options: argparse.Namespace, environment: Environment) -> Path:
    """The folder with the logs of deployments."""
    if options.on == "aws":
        return account.state_of(options, environment)
    from local.commands.session import Session

    return Session.open(options.environment, options.state).state


def _note(text: str) -> None:
    sys.stderr.write(f"{text}\n")

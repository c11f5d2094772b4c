"""`trainyard diff`, `gate`, `preflight`, `validate`, `notify` and `drift`: commands that print a report."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from cli.files import read

if TYPE_CHECKING:
    import boto3

    from settings import Environment


def diff(options: argparse.Namespace) -> int:
    """Show what a deployment would change, with a verdict.

    trainyard diff local
    trainyard diff prod --against origin/main --format markdown
    trainyard diff prod --on aws
    """
    from ops.report import write
    from ops.report.commands import review_report
    from ops.review.command import against_account, against_revision

    file, environment = read(options.environment)
    with_cdk = not options.no_cdk_diff and options.format != "json"
    if options.against:
        _progress("diff", f"synthesizing {file.name} here and at {options.against}")
        verdict, cdk_diff = against_revision(file, environment, options.against, with_cdk=with_cdk)
    else:
        with aws_session(options, environment) as session:
            _progress("diff", f"synthesizing {file.name} and reading the deployed stacks")
            verdict, cdk_diff = against_account(file, environment, session, with_cdk=with_cdk)
    write(review_report(verdict, cdk_diff), options.format, options.output)
    return int(verdict.level)


def gate(options: argparse.Namespace) -> int:
    """Write the verdict on a synthesized assembly, for a pipeline's approvals.

    trainyard gate dev --assembly cdk.out/assembly-dev --output report
    """
    from ops.review.command import gate

    _, environment = read(options.environment)
    return gate(environment, options.assembly, options.output)


def preflight(options: argparse.Namespace) -> int:
    """Check whether the account can hold an environment: capacity, quotas, addresses.

    trainyard preflight local
    trainyard preflight jakarta-80xp5e --on aws --format html --output preflight.html
    """
    from ops.report import write
    from ops.report.commands import preflight_report

    file, environment = read(options.environment)
    from ops.preflight.aws import Aws
    from ops.preflight.checks import run

    with aws_session(options, environment, start=True) as session:
        aws = Aws(session, environment.region)
        found = run(aws, environment, file, datetime.now(UTC), progress=partial(_progress, "preflight"))
    write(preflight_report(found), options.format, options.output)
    return 0 if found.ready else 1


def validate(options: argparse.Namespace) -> int:
    """Run scans, hello-gpu, NCCL and storage checks on the cluster, through Systems Manager.

    trainyard validate local --only head-scan
    trainyard validate jakarta-80xp5e --on aws --nodes 8 --image pytorch
    trainyard validate jakarta-80xp5e --on aws --only pairs --nodes all --image pytorch
    """
    from ops import notify
    from ops.report import write
    from ops.report.commands import validation_report
    from ops.validation.command import selection_of
    from ops.validation.command import validate as run

    _, environment = read(options.environment)
    selection = selection_of(
        environment.validation,
        only=options.only,
        skip=options.skip,
        nodes=options.nodes,
        image=options.image,
        storage_percent=options.storage_percent,
        drain=options.drain,
    )
    with aws_session(options, environment, start=True) as session, _terminated_as_interrupted():
        found = run(
            environment,
            selection,
            session,
            start_minutes=options.start_minutes,
            total_minutes=options.total_minutes,
            node_minutes=options.node_minutes,
            progress=partial(_progress, "validation"),
        )
        notify.of_validation(session, environment, found, partial(_progress, "validation"))
    write(validation_report(found), options.format, options.output)
    if not found.passed:
        words = f"trainyard logs {options.environment}{' --on aws' * (options.on == 'aws')}"
        _progress("validation", f"what the nodes logged: {words}, with health, slurm, or --node NAME")
    return 0 if found.passed else 1


def notify(options: argparse.Namespace) -> int:
    """List who receives an environment's notifications, and send a test message with --test.

    trainyard notify local --test
    trainyard notify my.yaml --on aws
    """
    from ops import notify
    from ops.report import write

    _, environment = read(options.environment)
    notify.topic(environment)
    with aws_session(options, environment) as session:
        if options.test:
            text = f"This is a test of the notifications of {environment.name}. Nothing is wrong."
            notify.publish(session, environment, f"Test of {environment.name}", text)
        found = notify.subscriptions(session, environment)
    write(notify.report(environment, found, sent=options.test), options.format, options.output)
    return 0 if found and all(item.confirmed for item in found) else 1


def drift(options: argparse.Namespace) -> int:
    """Compare the account with what was deployed to it.

    trainyard drift local
    trainyard drift prod --on aws --format json
    """
    from ops.report import write
    from ops.report.commands import drift_report

    file, environment = read(options.environment)
    import tempfile

    from ops.drift.findings import Report
    from ops.drift.survey import survey
    from ops.review.synthesis import ROOT, synthesize

    temporary = tempfile.TemporaryDirectory(prefix="trainyard-drift-")
    with aws_session(options, environment, start=True) as session, temporary as folder:
        _progress("drift", f"synthesizing {file.name}")
        wanted = synthesize(ROOT, file, Path(folder))
        _progress("drift", "comparing what is deployed; CloudFormation's drift detection takes minutes")
        found = survey(Report(environment.name, environment.account), session, wanted)
    write(drift_report(found), options.format, options.output)
    return int(found.level)


@contextmanager
def aws_session(
    options: argparse.Namespace, environment: Environment, *, start: bool = False
) -> Iterator[boto3.Session]:
    """A session in the environment's account, or on its emulated AWS, which is started where `start`.

    Raises:
        Problem: there are no credentials, or they belong to another account.
    """
    from ops.preflight.aws import Aws, require_account

    with emulator_or_aws(options, start=start):
        # The signing of requests to the ParallelCluster API reads the region there.
        os.environ["AWS_DEFAULT_REGION"] = os.environ["AWS_REGION"] = environment.region
        session = session_of(environment)
        require_account(Aws(session, environment.region), environment)
        yield session


@contextmanager
def emulator_or_aws(options: argparse.Namespace, *, start: bool = True) -> Iterator[None]:
    """With `--on local`, this process reaches the emulated AWS and nothing else; it is started where `start`."""
    if options.on == "aws":
        yield
        return
    from local.commands.session import reach_emulator

    with reach_emulator(options.environment, options.state, options.port, start=start):
        yield


def session_of(environment: Environment) -> boto3.Session:
    import boto3

    return boto3.Session(region_name=environment.region)


def _progress(command: str, line: str) -> None:
    """Progress on standard error, apart from the report."""
    sys.stderr.write(f"{command}: {line}\n")
    sys.stderr.flush()


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """A pipeline that stops its step sends SIGTERM, which must cancel the running job too."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

"""`python -m ops.validation ENV`: whether a cluster does its work, asked on the cluster itself.

Starts nodes, which cost money, and runs Slurm jobs of low priority on them: scans of the host, hello-gpu, gpu-check,
NCCL tests and storage tests. Exit status: 0 passed; 1 failed; 4 it could not be found out.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from ops.problem import Problem
from ops.review.command import FAILED, Parser, add_options
from ops.validation import head_node, plan
from ops.validation.report import Report
from ops.validation.walk import TOTAL_MINUTES, Walk
from settings import Environment, Faults, environment_file, load
from settings.model.environment import Validation

if TYPE_CHECKING:
    import boto3

_MOST_NODES = 64


def parser() -> argparse.ArgumentParser:
    """The command line. ENV is a name under environments/ or a path to a file."""
    top = Parser(
        prog="python -m ops.validation", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    top.add_argument("environment", metavar="ENV", help="a name under environments/, or a file's path")
    add_options(top)
    which = top.add_mutually_exclusive_group()
    names = ",".join(plan.CHECKS)
    which.add_argument(
        "--only", type=_checks, metavar="LIST", help=f"these checks, of {names}; one that cannot be asked has failed"
    )
    which.add_argument("--skip", type=_checks, default=(), metavar="LIST", help="all checks but these")
    top.add_argument(
        "--nodes", type=_number(1, _MOST_NODES), default=2, metavar="N", help="most nodes of a job (default 2)"
    )
    top.add_argument(
        "--image",
        default="",
        metavar="NAME",
        help="imported image for NCCL and storage (default: validation.image of the file, else the host)",
    )
    top.add_argument(
        "--start-minutes",
        type=_number(1, 24 * 60),
        default=30,
        metavar="N",
        help="how long a job may wait for its nodes (default 30; they take 8 to 12 to come up)",
    )
    top.add_argument(
        "--total-minutes",
        type=_number(1, 7 * 24 * 60),
        default=TOTAL_MINUTES,
        metavar="N",
        help=f"how long all jobs may take together (default {TOTAL_MINUTES})",
    )
    top.add_argument(
        "--storage-percent",
        type=_number(1, 100),
        default=80,
        metavar="N",
        help="of the provisioned throughput that few clients must reach (default 80)",
    )
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; returns the exit status."""
    options = parser().parse_args(arguments)
    try:
        environment = load(environment_file(options.environment).resolve())
        wishes = _wishes(options, environment.validation)
        with _terminated_as_interrupted():
            minutes = options.start_minutes, options.total_minutes
            report = _validate(environment, wishes, minutes, _session(environment))
        return _show(report, options.format, options.output)
    except (Problem, head_node.Refused, Faults, ValueError, OSError) as problem:
        sys.stderr.write(f"{problem}\n")
        return FAILED
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted: no verdict. The job that ran was ended.\n")
        return FAILED


def _session(environment: Environment) -> boto3.Session:
    import boto3

    return boto3.Session(region_name=environment.region)


def _validate(
    environment: Environment, wishes: plan.Wishes, minutes: tuple[float, float], session: boto3.Session
) -> Report:
    ssm = session.client("ssm")
    document = head_node.document(ssm, environment.name)
    instance = head_node.find(session.client("ec2"), environment.cluster_name)
    node = head_node.HeadNode(ssm, instance, document)
    _tell(f"asking {instance}, the head node of {environment.cluster_name}")
    facts = node.ask("facts")
    if wishes.image and "/" not in wishes.image and wishes.image not in facts["images"]:
        known = ", ".join(facts["images"]) or "none"
        raise Problem(
            f"The image {wishes.image} is not on the cluster; imported are: {known}.\n"
            "Import it on the head node: images/import-container.sh IMAGE_URI NAME"
        )
    made = plan.make(environment, wishes, plan.Means(facts["programs"], facts["images"]))
    run = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    start, total = minutes
    lines = tuple(Walk(node, run, start, _tell, total_minutes=total).lines(made))
    return Report(environment.name, environment.cluster_name, instance, lines)


def _wishes(options: argparse.Namespace, file: Validation) -> plan.Wishes:
    """The command line's wishes; what it leaves out, the environment file says."""
    checks = options.only or tuple(check for check in plan.CHECKS if check not in options.skip)
    if not checks:
        raise Problem("--skip leaves no check; leave one of them out")
    insisted = options.only or tuple(check for check in file.required if check in checks)
    return plan.Wishes(checks, insisted, options.nodes, options.image or file.image or "", options.storage_percent)


def _show(report: Report, form: str, output: Path | None) -> int:
    from rich.console import Console

    from ops.validation import machine, markdown, text

    if form == "text":
        if output:
            with output.open("w", encoding="utf-8") as file:
                text.show(report, Console(file=file, width=160, highlight=False))
        else:
            text.show(report, Console(highlight=False))
        return report.exit
    content = markdown.render(report) if form == "markdown" else f"{machine.render(report)}\n"
    if output:
        output.write_text(content, "utf-8")
    else:
        sys.stdout.write(content)
    return report.exit


def _tell(line: str) -> None:
    """Progress, beside the report."""
    sys.stderr.write(f"validation: {line}\n")
    sys.stderr.flush()


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """A pipeline that stops its step sends SIGTERM: that must end the job too."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _checks(text: str) -> tuple[str, ...]:
    names = tuple(name for name in text.split(",") if name)
    if not names or (wrong := [name for name in names if name not in plan.CHECKS]):
        given = wrong[0] if names else text
        raise argparse.ArgumentTypeError(f"{given!r}; allowed, joined by commas: {', '.join(plan.CHECKS)}")
    return names


def _number(least: int, most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r}; allowed: {least} to {most}")
        return int(text)

    return number

"""`python -m ops.preflight ENV`: whether the account can hold an environment, asked before money is spent.

It reads with the credentials of the shell and changes nothing. Exit status: 0 ready; 1 not ready: something is missing,
or something that must be known may not be asked; 4 no verdict: wrong use, no credentials, those of another account.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from ops.preflight import machine, markdown, text
from ops.preflight.line import Report
from ops.problem import Problem
from ops.review.command import FAILED, Parser, add_options
from settings import Faults, environment_file, load

_WIDTH = 160


def parser() -> argparse.ArgumentParser:
    """The command line. ENV is a name under environments/ or a path to a file."""
    top = Parser(
        prog="python -m ops.preflight", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    top.add_argument("environment", metavar="ENV", help="a name under environments/, or a file's path")
    add_options(top)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; returns the exit status."""
    options = parser().parse_args(arguments)
    try:
        file = environment_file(options.environment).resolve()
        report = _ask(file)
        _write(report, options.format, options.output)
    except (Problem, Faults, ValueError, OSError) as problem:
        sys.stderr.write(f"{problem}\n")
        return FAILED
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted: no verdict.\n")
        return FAILED
    return 0 if report.ready else 1


def _ask(file: Path) -> Report:
    environment = load(file)

    # Only now: these take a second, and wrong use should not.
    import boto3
    from botocore.exceptions import BotoCoreError

    from ops.preflight import caller
    from ops.preflight.aws import Aws
    from ops.preflight.run import run

    try:
        session = boto3.Session(region_name=environment.region)
        aws = Aws(session, environment.region)
        caller.require(aws, session, environment)
        return run(aws, environment, file, datetime.now(UTC))
    except BotoCoreError as error:
        raise Problem(f"AWS cannot be asked: {error}") from error


def _write(report: Report, form: str, output: Path | None) -> None:
    if form == "text":
        if output is None:
            console = Console(highlight=False)
            if not console.is_terminal:
                console = Console(highlight=False, width=_WIDTH)
            text.show(report, console)
            return
        with output.open("w", encoding="utf-8") as file:
            text.show(report, Console(file=file, width=_WIDTH, highlight=False))
        return
    content = markdown.render(report) if form == "markdown" else f"{machine.render(report)}\n"
    if output:
        output.write_text(content, "utf-8")
    else:
        sys.stdout.write(content)

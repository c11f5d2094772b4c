"""What the diff commands share: sides in, report out, exit status."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Literal, NoReturn, get_args

from rich.console import Console

from ops.review import machine, markdown, text
from ops.review.stacks import Stacks
from ops.review.verdict import Verdict, judge

Format = Literal["text", "markdown", "json"]
FORMATS: tuple[str, ...] = get_args(Format)

FAILED = 4
"""Exit status where there is no verdict; 0 to 3 are the verdicts."""


class Parser(argparse.ArgumentParser):
    """Ends with FAILED on wrong use: argparse's own status, 2, is a verdict here."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and end."""
        self.print_usage(sys.stderr)
        self.exit(FAILED, f"{self.prog}: {message}\n")
        raise SystemExit(FAILED)


def add_options(command: argparse.ArgumentParser) -> None:
    """The options of every diff command."""
    command.add_argument("--format", choices=FORMATS, default="text", help="default text")
    command.add_argument("--output", type=Path, metavar="FILE", help="write the report there instead of printing it")


def report(
    environment: str,
    against: str,
    *,
    old: Stacks,
    new: Stacks,
    cdk_diff: str,
    form: str,
    output: Path | None = None,
    console: Console | None = None,
) -> int:
    """Print the verdict, or write it to `output`; returns the exit status.

    Raises:
        Problem: see `judge`.
    """
    verdict = judge(environment, against, old, new)
    if form == "text":
        if output:
            with output.open("w", encoding="utf-8") as file:
                _text(verdict, cdk_diff, Console(file=file, width=160, highlight=False))
        else:
            _text(verdict, cdk_diff, console or Console(highlight=False))
        return int(verdict.level)
    content = markdown.render(verdict, cdk_diff) if form == "markdown" else f"{machine.render(verdict)}\n"
    if output:
        output.write_text(content, "utf-8")
    else:
        sys.stdout.write(content)
    return int(verdict.level)


def _text(verdict: Verdict, cdk_diff: str, console: Console) -> None:
    text.head(verdict, console)
    if cdk_diff.strip():
        console.print()
        console.print(cdk_diff.strip(), markup=False, soft_wrap=True)
    text.body(verdict, console)

"""`python -m local up|down|diff|status|exec ENV`: what `make up` and its sisters run.

Exit status: 0 done; 1 failed, with words; 4 an error of this program's own, with its traceback. That of `diff` is its
verdict (docs/review.md), and 4 where there is none; that of `exec` is its command's, and 4 where it could not be run.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from local.emulator.launch import EmulatorError
from ops.problem import Problem
from ops.review.command import FAILED, Parser, add_options
from settings import Faults

if TYPE_CHECKING:
    from local.commands.session import Session

INTERRUPTED = 130
VERDICTS = ("diff", "exec")
"""Commands whose exit status says something of its own."""

LEAST_PORT, MOST_PORT = 1024, 65534
"""Ports below are root's; the world takes the one after it too."""


def port(text: str) -> int:
    """A port for the world, from the command line."""
    if not text.isdecimal() or not LEAST_PORT <= int(text) <= MOST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: {LEAST_PORT} to {MOST_PORT}")
    return int(text)


def parser() -> Parser:
    """The command line. ENV is a name under environments/ or a path to a file."""
    top = Parser(prog="python -m local", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = top.add_subparsers(dest="command", required=True)
    for name, text in (
        ("up", "start the emulated AWS and deploy ENV to it"),
        ("down", "destroy ENV in the emulated AWS and stop it"),
        ("diff", "show what `up` would change"),
        ("status", "show what is deployed"),
        ("exec", "run a command with the emulated AWS in the place of AWS: exec ENV -- COMMAND..."),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("environment", metavar="ENV", help="a name under environments/, or a file's path")
        command.add_argument(
            "--state",
            type=Path,
            default=None,
            help="folder of the world's state and logs (default .trainyard/<name>)",
        )
        if name in ("up", "exec"):
            command.add_argument("--port", type=port, default=None, help="first of the two ports that the world takes")
        if name == "exec":
            command.add_argument("--start", action="store_true", help="start an empty world where none runs")
            command.add_argument("line", nargs="+", metavar="COMMAND", help="after --: a program and its arguments")
        if name == "up":
            command.add_argument("--no-hello", action="store_true", help="end without a job in the Slurm laboratory")
        if name == "diff":
            add_options(command)
        if name == "down":
            command.add_argument("--delete-data", action="store_true", help="also where buckets hold data")
            command.add_argument("--force", action="store_true", help="stop the emulated AWS without destroying first")
    return top


def main(arguments: list[str]) -> int:
    """Run one command; faults of the user's and of the world's come out as text, not as tracebacks."""
    from local.commands import commands  # boto3 is imported only once the arguments are right

    options = parser().parse_args(arguments)
    try:
        if options.command == "down" and options.force:
            commands.force_down(options.environment, options.state)
            return 0
        return _act(commands.open_session(options.environment, options.state), options)
    except (Problem, EmulatorError, Faults) as problem:
        print(f"\n{problem}", file=sys.stderr)
        return FAILED if options.command in VERDICTS else 1
    except KeyboardInterrupt:
        print(
            "\nInterrupted. What stands is kept: `make up` goes on from there, `make down` removes it.",
            file=sys.stderr,
        )
        return INTERRUPTED


def _act(session: Session, options: argparse.Namespace) -> int:
    from local.commands import commands, gone

    with gone.in_words(session.state):
        if options.command == "up":
            commands.up(session, options.port, hello_gpu=not options.no_hello)
        elif options.command == "down":
            commands.down(session, delete_data=options.delete_data)
        elif options.command == "diff":
            return commands.diff(session, form=options.format, output=options.output)
        elif options.command == "exec":
            return commands.execute(session, options.port, options.line, begin=options.start)
        else:
            commands.status(session)
    return 0


def run(arguments: list[str]) -> int:
    """As main; an error of this program's own must not end `diff` in Python's status 1, which is a verdict."""
    try:
        return main(arguments)
    except Exception:
        traceback.print_exc()
        return FAILED


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))

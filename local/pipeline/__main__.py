"""`python -m local.pipeline walk|resume|status|stop PIPELINE`: walk a pipeline in an emulated AWS on loopback.

Exit status: 0 succeeded; 1 failed at an action; 3 waiting for an approval; 4 wrong use, or an error of this program.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from pathlib import Path

from botocore.exceptions import ClientError

from cli.parser import Parser
from local.emulator.launch import EmulatorError
from local.pipeline.problem import Problem
from ops.problem import Problem as CliProblem

ROOT = Path(__file__).resolve().parents[2]
INTERRUPTED = 130
BY_HAND = ("*/promotion",)


def parser() -> Parser:
    """The command line."""
    top = Parser(
        prog="python -m local.pipeline", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = top.add_subparsers(dest="command", required=True)
    for name, text in (
        ("walk", "walk a commit from the start; the emulated AWS is started where it does not run"),
        ("resume", "go on where a walk failed, or waits for an approval"),
        ("status", "show the last walk"),
        ("stop", "stop the emulated AWS and forget the walk"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("pipeline", metavar="PIPELINE", help="a name under pipelines/, or a file's path")
        command.add_argument("--state", type=Path, help="folder of state and logs (default .trainyard/pipeline-<name>)")
        command.add_argument("--checkout", type=Path, default=ROOT, help="git repository to walk (default: this one)")
        if name in ("walk", "resume"):
            _walking(command)
        if name == "walk":
            _beginning(command)
    return top


def _walking(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--approve", action="append", default=[], metavar="STAGE/ACTION", help="give this approval (may be repeated)"
    )
    command.add_argument("--approve-all", action="store_true", help="give every approval")
    command.add_argument(
        "--skip",
        action="append",
        default=[],
        metavar="COMMAND",
        help="leave this command of the builds out, and say so",
    )
    command.add_argument(
        "--install",
        action="store_true",
        help="let builds install everything themselves instead of lending them this checkout's",
    )
    command.add_argument("--beside", type=int, default=3, help="how many actions may work at the same time (default 3)")
    command.add_argument(
        "--grace", type=float, default=8, metavar="SECONDS", help="how long a function may take to answer an approval"
    )


def _beginning(command: argparse.ArgumentParser) -> None:
    which = command.add_mutually_exclusive_group()
    which.add_argument("--revision", default="HEAD", help="the commit to walk (default HEAD)")
    which.add_argument("--working-tree", action="store_true", help="walk the files as they are, committed or not")
    command.add_argument("--port", type=int, help="first of the ports that the emulated AWS takes")
    command.add_argument(
        "--by-hand",
        action="append",
        metavar="PATTERN",
        help=f"stacks that a person deploys before the first execution (default {' '.join(BY_HAND)})",
    )
    command.add_argument("--seeds", type=Path, help="JSON: {account: what exists there from the start}")


def main(arguments: list[str]) -> int:
    """Run one command; what is at fault comes out as text."""
    given = parser().parse_args(arguments)
    from local.pipeline import commands, journey, report
    from local.pipeline.source import WORKING_TREE

    console = report.console()
    options = journey.Options(
        name=given.pipeline,
        state=(given.state or ROOT / ".trainyard" / f"pipeline-{Path(given.pipeline).stem}").resolve(),
        checkout=given.checkout.resolve(),
        revision=WORKING_TREE if getattr(given, "working_tree", False) else getattr(given, "revision", "HEAD"),
        port=getattr(given, "port", None) or commands.DEFAULT_PORT,
        by_hand=tuple(getattr(given, "by_hand", None) or BY_HAND),
        seeds=getattr(given, "seeds", None),
        skip=tuple(command.strip() for command in getattr(given, "skip", [])),
        lend=not getattr(given, "install", False),
        approved=frozenset(getattr(given, "approve", [])),
        approve_all=getattr(given, "approve_all", False),
        grace_s=getattr(given, "grace", 0.0),
        beside=getattr(given, "beside", 1),
    )
    act = {"walk": commands.begin, "resume": commands.resume, "status": commands.status, "stop": commands.stop}
    try:
        return act[given.command](options, console)
    except (Problem, CliProblem, EmulatorError) as problem:
        print(f"\n{problem}", file=sys.stderr)
        return commands.WRONG
    except ClientError as error:
        print(f"\nThe emulated AWS refused: {error}", file=sys.stderr)
        return commands.WRONG
    except KeyboardInterrupt:
        print("\nInterrupted. What was deployed stands; `resume` goes on from there.", file=sys.stderr)
        return INTERRUPTED
    except Exception:
        traceback.print_exc()
        return commands.WRONG


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The command line: commands, options, examples."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from cli import emulated, files, verdicts
from cli.exits import FAILED, TABLE

FORMATS = ("text", "markdown", "json", "html")
CHECKS = ("head-scan", "scan", "hello-gpu", "gpu-check", "nccl", "storage")
DESCRIPTION = "GPU training clusters on AWS as code: deploy, review, check and validate an environment."

_LEAST_PORT, _MOST_PORT = 1024, 65534
_KEPT = "What exists is kept: `trainyard up` continues, `trainyard down` removes it."


class Parser(argparse.ArgumentParser):
    """Exits with FAILED on wrong use: argparse's own status, 2, is a verdict of `diff`."""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and exit."""
        self.print_usage(sys.stderr)
        self.exit(FAILED, f"{self.prog}: {message}\n")
        raise SystemExit(FAILED)


def parser() -> Parser:
    """The whole command line."""
    top = Parser(
        prog="trainyard",
        description=DESCRIPTION,
        epilog="Exit statuses:\n" + "\n".join(f"  {status:>3}  {meaning}" for status, meaning in TABLE),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--no-color", action="store_true", help="print no colours (also: NO_COLOR=1)")
    commands = _Commands(top.add_subparsers(dest="command", required=True, metavar="COMMAND"))
    _emulated(commands)
    _verdicts(commands)
    _files(commands)
    return top


class _Commands:
    def __init__(self, commands: argparse._SubParsersAction[Parser]) -> None:
        self._commands = commands

    def add(
        self,
        name: str,
        text: str,
        run: Callable[[argparse.Namespace], int],
        *examples: str,
        environment: bool = True,
        interrupted: str = "There is no result.",
    ) -> Parser:
        shown = "examples:\n" + "\n".join(f"  {example}" for example in examples)
        command = self._commands.add_parser(
            name,
            help=text,
            description=f"{text[0].upper()}{text[1:]}.",
            epilog=shown,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_argument("--no-color", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        command.set_defaults(run=run, interrupted=interrupted)
        if environment:
            command.add_argument("environment", metavar="ENV", help="name under environments/, or path of a .yaml file")
        return command


def _emulated(commands: _Commands) -> None:
    up = commands.add(
        "up",
        "deploy an environment to an emulated AWS on this machine",
        emulated.up,
        "trainyard up local",
        "trainyard up my.yaml --port 4700 --no-hello",
        interrupted=_KEPT,
    )
    _state(up)
    _port(up)
    up.add_argument("--no-hello", action="store_true", help="skip the first Slurm job, hello-gpu")
    down = commands.add(
        "down",
        "destroy an environment in the emulated AWS and stop it",
        emulated.down,
        "trainyard down local",
        "trainyard down local --delete-data",
        interrupted=_KEPT,
    )
    _state(down)
    down.add_argument("--delete-data", action="store_true", help="also where buckets hold data")
    down.add_argument("--force", action="store_true", help="stop the emulated AWS without destroying the stacks first")
    status = commands.add("status", "show what the emulated AWS holds", emulated.status, "trainyard status local")
    _state(status)
    run = commands.add(
        "exec",
        "run a command with the emulated AWS in the place of AWS",
        emulated.execute,
        "trainyard exec local -- aws s3 ls",
        "trainyard exec local --start -- bash",
    )
    _state(run)
    _port(run)
    run.add_argument("--start", action="store_true", help="start an empty emulated AWS if none runs")
    run.add_argument("line", nargs="+", metavar="COMMAND", help="a program and its arguments, after --")
    promote = commands.add(
        "promote",
        "take this checkout through a pipeline in emulated AWS accounts",
        emulated.promote,
        "trainyard promote promotion",
        "trainyard promote promotion --resume --approve dev/Approve-Permissions",
        environment=False,
        interrupted="What was deployed is kept: --resume continues.",
    )
    _promotion(promote)
    _lab(
        commands.add(
            "lab",
            "run Slurm with an environment's bootstrap and jobs on this machine (root, Debian or Ubuntu)",
            emulated.lab,
            "trainyard lab up local",
            "trainyard lab run -- srun -N2 hostname",
            environment=False,
        )
    )


def _promotion(command: Parser) -> None:
    command.add_argument(
        "pipeline",
        metavar="PIPELINE",
        nargs="?",
        default="promotion",
        help="name or path (default promotion)",
    )
    command.add_argument("--resume", action="store_true", help="continue where the last run failed or waits")
    command.add_argument("--stop", action="store_true", help="stop the emulated AWS of the pipeline")
    command.add_argument(
        "--approve", action="append", default=[], metavar="STAGE/ACTION", help="give this approval (repeatable)"
    )
    command.add_argument(
        "--skip",
        action="append",
        default=[],
        metavar="COMMAND",
        help="leave out a command of the steps (repeatable)",
    )
    command.add_argument("--checkout", type=Path, metavar="FOLDER", help="what to promote (default: this checkout)")
    _port(command)
    _state(command, ".trainyard/pipeline-<name>")


def _lab(command: Parser) -> None:
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    common = Parser(add_help=False)
    common.add_argument("--name", default="lab", help="which laboratory (default lab)")
    _state(common, ".trainyard/lab/NAME")

    def add(name: str, text: str) -> Parser:
        return actions.add_parser(name, parents=[common], help=text, description=f"{text[0].upper()}{text[1:]}.")

    up = add("up", "start it; a running one of the same name is stopped first")
    up.add_argument("environment", metavar="ENV", nargs="?", default="local", help="name or path (default local)")
    up.add_argument("--nodes", type=int, default=2, help="nodes of the first compute resource with GPUs (default 2)")
    up.add_argument(
        "--count", action="append", default=[], metavar="QUEUE/COMPUTE=N", help="instead of --nodes (repeatable)"
    )
    up.add_argument(
        "--base", choices=("bookworm", "trixie"), default="bookworm", help="bookworm: Slurm 22.05; trixie: Slurm 24.11"
    )
    up.add_argument(
        "--bind", action="append", default=[], metavar="SOURCE:TARGET", help="mount a folder read-only on all nodes"
    )
    up.add_argument("--powered-down", action="store_true", help="declare the environment's other nodes to Slurm too")
    up.add_argument("--no-bootstrap", action="store_true", help="leave the nodes as the AMI has them, with Pyxis on")
    add("down", "stop it and remove its files")
    add("status", "show nodes and jobs")
    shell = add("shell", "open a shell on a node")
    run = add("run", "run a command on a node; exits as it does")
    for inner in (shell, run):
        inner.add_argument("--node", default="head", help="a node's name (default head)")
        inner.add_argument("--user", default="", help="user (default: the cluster's user)")
    run.add_argument("line", nargs="+", metavar="COMMAND", help="a program and its arguments, after --")


def _verdicts(commands: _Commands) -> None:
    diff = commands.add(
        "diff",
        "show what a deployment would change, with a verdict",
        verdicts.diff,
        "trainyard diff local",
        "trainyard diff prod --against origin/main --format markdown",
        "trainyard diff prod --on aws",
    )
    diff.add_argument(
        "--against", metavar="GIT_REF", help="compare with this revision; needs no credentials and no emulated AWS"
    )
    diff.add_argument("--no-cdk-diff", action="store_true", help="leave out the CDK's own diff (faster)")
    _account(diff)
    _report(diff)
    gate = commands.add(
        "gate",
        "write the verdict on a synthesized assembly, for a pipeline's approvals",
        verdicts.gate,
        "trainyard gate dev --assembly cdk.out/assembly-dev --output report",
    )
    gate.add_argument("--assembly", type=Path, required=True, metavar="FOLDER", help="what will be deployed")
    gate.add_argument("--output", type=Path, required=True, metavar="FOLDER", help="folder for the report")
    preflight = commands.add(
        "preflight",
        "check whether the account can hold an environment: capacity, quotas, addresses",
        verdicts.preflight,
        "trainyard preflight local",
        "trainyard preflight jakarta-80xp5e --on aws --format html --output preflight.html",
    )
    _account(preflight)
    _report(preflight)
    validate = commands.add(
        "validate",
        "run scans, hello-gpu, NCCL and storage checks on the cluster, through Systems Manager",
        verdicts.validate,
        "trainyard validate local --only head-scan",
        "trainyard validate jakarta-80xp5e --on aws --nodes 8 --image pytorch",
        interrupted="There is no result. The running job was cancelled.",
    )
    _account(validate)
    _report(validate)
    _validation(validate)
    drift = commands.add(
        "drift",
        "compare the account with what was deployed to it",
        verdicts.drift,
        "trainyard drift local",
        "trainyard drift prod --on aws --format json",
    )
    _account(drift)
    _report(drift)


def _validation(command: Parser) -> None:
    which = command.add_mutually_exclusive_group()
    names = ",".join(CHECKS)
    which.add_argument("--only", type=_checks, metavar="LIST", help=f"only these of {names}; each must be able to run")
    which.add_argument("--skip", type=_checks, default=(), metavar="LIST", help="all checks except these")
    command.add_argument("--nodes", type=_number(1, 64), default=2, metavar="N", help="most nodes of a job (default 2)")
    command.add_argument(
        "--image", default="", metavar="NAME", help="image for NCCL and storage (default: validation.image of the file)"
    )
    command.add_argument(
        "--start-minutes",
        type=_number(1, 24 * 60),
        default=30,
        metavar="N",
        help="longest wait of a job for its nodes (default 30)",
    )
    command.add_argument(
        "--total-minutes",
        type=_number(1, 7 * 24 * 60),
        default=200,
        metavar="N",
        help="longest time of all jobs together (default 200)",
    )
    command.add_argument(
        "--storage-percent",
        type=_number(1, 100),
        default=80,
        metavar="N",
        help="share of the provisioned throughput that few clients must reach (default 80)",
    )


def _files(commands: _Commands) -> None:
    check = commands.add(
        "check",
        "check environment or pipeline files without synthesizing them",
        files.check,
        "trainyard check local",
        "trainyard check environments/*.yaml",
        "trainyard check --pipeline promotion",
        environment=False,
    )
    check.add_argument("names", nargs="+", metavar="ENV", help="name under environments/, or path of a .yaml file")
    check.add_argument("--pipeline", action="store_true", help="the names are of pipeline files")
    commands.add(
        "names", "print NAME=VALUE lines: name, account, region", files.names, 'trainyard names dev >> "$GITHUB_OUTPUT"'
    )
    schema = commands.add(
        "schema",
        "print the JSON Schema of environment files",
        files.schema,
        "trainyard schema > environment.schema.json",
        "trainyard schema --pipeline",
        "trainyard schema --write",
        environment=False,
    )
    which = schema.add_mutually_exclusive_group()
    which.add_argument("--pipeline", action="store_true", help="of pipeline files")
    which.add_argument("--write", action="store_true", help="update the checkout's schemas and reference pages instead")
    completion = commands.add(
        "completion",
        "print a completion script for a shell",
        files.completion,
        "trainyard completion bash > ~/.local/share/bash-completion/completions/trainyard",
        environment=False,
    )
    completion.add_argument("shell", choices=("bash", "zsh"))


def _account(command: Parser) -> None:
    command.add_argument(
        "--on",
        choices=("local", "aws"),
        default="local",
        help="local: emulated AWS (default); aws: your credentials",
    )
    _port(command)
    _state(command)


def _report(command: Parser) -> None:
    command.add_argument("--format", choices=FORMATS, default="text", help="format of the report (default text)")
    command.add_argument("--output", type=Path, metavar="FILE", help="write the report there instead of printing it")


def _state(command: Parser, default: str = ".trainyard/<name>") -> None:
    command.add_argument("--state", type=Path, metavar="FOLDER", help=f"state and logs (default {default})")


def _port(command: Parser) -> None:
    command.add_argument("--port", type=_number(_LEAST_PORT, _MOST_PORT), help="first port of the emulated AWS")


def _checks(text: str) -> tuple[str, ...]:
    names = tuple(name for name in text.split(",") if name)
    if not names or (wrong := [name for name in names if name not in CHECKS]):
        given = wrong[0] if names else text
        raise argparse.ArgumentTypeError(f"{given!r}; allowed, joined by commas: {', '.join(CHECKS)}")
    return names


def _number(least: int, most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r}; allowed: {least} to {most}")
        return int(text)

    return number

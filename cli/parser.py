"""The command line. A command's help and examples are the docstring of its function; its options are here."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from cli import account, data, emulated, files, logs, overview, usage, users, verdicts
from cli.exits import FAILED, TABLE

FORMATS = ("text", "markdown", "json", "html")
CHECKS = ("head-scan", "scan", "hello-gpu", "gpu-check", "gpu-burn", "pairs", "nccl", "storage", "s3")
TOPICS = ("cluster", "bootstrap", "slurm", "health")
ALL_NODES = 1024
"""Most nodes of a job file (cluster_assets/jobs/lib/job.sh)."""
DESCRIPTION = "GPU training clusters on AWS as code: deploy, review, check and validate an environment."
PORTS = (1024, 65534)

_KEPT = "What exists is kept: `trainyard up` continues, `trainyard down` removes it."
INTERRUPTED = {
    "up": _KEPT,
    "down": _KEPT,
    "logs": "Nothing was changed.",
    "data": "What arrived is kept: the same command goes on.",
    "promote": "What was deployed is kept: --resume continues.",
    "validate": "There is no result. The running job was cancelled.",
}

Option = tuple[str, dict[str, Any]]
"""A name, and the arguments of `add_argument`."""


def _value(name: str, metavar: str | None, text: str, **more: object) -> Option:
    return name, {"metavar": metavar, "help": text, **more}


def _flag(name: str, text: str) -> Option:
    return name, {"action": "store_true", "help": text}


def _path(name: str, metavar: str, text: str, **more: object) -> Option:
    return _value(name, metavar, text, type=Path, **more)


def _repeatable(name: str, metavar: str, text: str) -> Option:
    return _value(name, metavar, f"{text} (repeatable)", action="append", default=[])


def _choice(name: str, choices: tuple[str, ...], text: str) -> Option:
    return name, {"choices": choices, "default": choices[0], "help": text}


def _number(name: str, most: int, default: int, text: str) -> Option:
    return _value(name, "N", f"{text} (default {default})", type=_between(1, most), default=default)


def _state(default: str) -> Option:
    return _path("--state", "FOLDER", f"state and logs (default {default})")


def _minutes(text: str) -> float:
    if not re.fullmatch(r"\d{1,4}(\.\d{1,3})?", text) or not 0 < float(text) <= 24 * 60:
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: more than 0, to {24 * 60}")
    return float(text)


def _seconds(text: str) -> int:
    found = re.fullmatch(r"([1-9]\d{0,3})([mhd])", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: a number with m, h or d, for example 30m, 2h, 7d")
    return int(found[1]) * {"m": 60, "h": 3600, "d": 86400}[found[2]]


def _moment(text: str) -> Callable[[int], int]:
    """A time before another one (7d), or a date or time in UTC."""
    if re.fullmatch(r"[1-9]\d{0,3}[mhd]", text):
        return lambda until: until - _seconds(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        allowed = "30m, 2h or 7d before the end, or a date or time in UTC: 2026-10-01, 2026-10-01T08:00"
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: {allowed}") from None
    return lambda _: int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp())


def _between(least: int, most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r}; allowed: {least} to {most}")
        return int(text)

    return number


def _address(text: str) -> str:
    if not re.fullmatch(r"https?://[\w.\[\]:-]+(/[\w./-]*)?", text):
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: http:// or https://, a host, and a path without a query")
    return text


def _nodes(text: str) -> int:
    return ALL_NODES if text == "all" else _between(1, ALL_NODES)(text)


def _checks(text: str) -> tuple[str, ...]:
    names = tuple(name for name in text.split(",") if name)
    if not names or (wrong := [name for name in names if name not in CHECKS]):
        given = wrong[0] if names else text
        raise argparse.ArgumentTypeError(f"{given!r}; allowed, joined by commas: {', '.join(CHECKS)}")
    return names


_ENV = _value("environment", "ENV", "name under environments/, or path of a .yaml file")
_PORT: Option = ("--port", {"type": _between(*PORTS), "help": "first port of the emulated AWS"})
_STATE = _state(".trainyard/<name>")
_SSH = Path("~/.ssh/trainyard")
_LINE = _value("line", "COMMAND", "a program and its arguments, after --", nargs="+")
_ON = _choice("--on", ("local", "aws"), "local: emulated AWS (default); aws: your credentials")
_ACCOUNT = (_ON, _PORT, _STATE)
_YES = _flag("--yes", "aws: do not ask for confirmation, for automation")
_REPORT = (
    _choice("--format", FORMATS, "format of the report (default text)"),
    _path("--output", "FILE", "write the report there instead of printing it"),
)
SEVEN_DAYS: dict[str, Any] = {"type": _moment, "default": _moment("7d")}
_ONLY = f"only these of {','.join(CHECKS)}; one that cannot run is a failure"

COMMANDS: dict[str, tuple[Callable[[argparse.Namespace], int], tuple[Option | list[Option], ...]]] = {
    "up": (
        emulated.up,
        (
            _ENV,
            *_ACCOUNT,
            _flag("--no-hello", "local: skip the first Slurm job, hello-gpu"),
            _YES,
            _flag("--destructive", "aws: with --yes, also where the verdict is DESTRUCTIVE"),
            _flag("--despite-checks", "aws: continue although permission checks or the preflight did not pass"),
        ),
    ),
    "down": (
        emulated.down,
        (
            _ENV,
            _ON,
            _STATE,
            _YES,
            _flag("--delete-data", "also where buckets that are deleted hold data"),
            _flag("--force", "local: stop the emulated AWS without destroying the stacks first"),
        ),
    ),
    "status": (
        emulated.status,
        (
            _ENV,
            _ON,
            _STATE,
            _flag("--web", "serve the overview of metrics as a page on loopback"),
            ("--port", {"type": _between(*PORTS), "help": f"with --web: port of the page (default {overview.PORT})"}),
            _value(
                "--prometheus",
                "URL",
                "with --web: address of Prometheus (default http://127.0.0.1:9090)",
                type=_address,
            ),
            _path("--output", "FILE", "with --web: write the page there instead of serving it"),
        ),
    ),
    "connect": (
        account.connect,
        (
            _ENV,
            _value("--user", "NAME", "log in as this user of the environment (default: the cluster's user)"),
            _path("--key", "FILE", "a private key of yours (default: a new one in the folder)"),
            _path("--folder", "FOLDER", f"folder for the SSH configuration (default {_SSH})", default=_SSH),
            _flag("--dashboards", "open Grafana, Prometheus and Alertmanager on this machine's ports until Ctrl-C"),
        ),
    ),
    "logs": (
        logs.logs,
        (
            _ENV,
            _value("topic", "TOPIC", f"{', '.join(TOPICS)} (default cluster)", nargs="?", choices=TOPICS),
            _value("--job", "N", "the output of this job, and what slurmctld logged about it", type=_between(1, 2**32)),
            _value("--node", "NAME", "the logs of this node: a name of sinfo, head, or an instance id"),
            _value("--since", "TIME", "how long back, as 30m, 2h, 7d (default 1h; with --job 24h)", type=_seconds),
            _number("--lines", 100_000, 200, "most lines, the last ones"),
            _flag("--follow", "go on with new lines until interrupted"),
            *_ACCOUNT,
        ),
    ),
    "support-bundle": (
        logs.support_bundle,
        (_ENV, *_ACCOUNT, _path("--output", "FILE", "the archive (default support-<name>-<time>.tar.gz here)")),
    ),
    "init": (
        account.init,
        (
            _path("file", "FILE", "new .yaml file; its name is the environment's"),
            _value("--region", "REGION", "AWS region"),
            _value("--reservation", "ID", "capacity reservation: gives zone, type and number of nodes"),
            _value("--zone", "ZONE", "zone id, for example usw2-az2"),
            _value("--instance-type", "TYPE", "of the compute nodes"),
            _value("--nodes", "N", "most compute nodes"),
        ),
    ),
    "exec": (
        emulated.execute,
        (_ENV, _STATE, _PORT, _flag("--start", "start an empty emulated AWS if none runs"), _LINE),
    ),
    "promote": (
        emulated.promote,
        (
            _value("pipeline", "PIPELINE", "name or path (default promotion)", nargs="?", default="promotion"),
            _flag("--resume", "continue where the last run failed or waits"),
            _flag("--stop", "stop the emulated AWS of the pipeline"),
            _repeatable("--approve", "STAGE/ACTION", "give this approval"),
            _repeatable("--skip", "COMMAND", "leave out a command of the steps"),
            _path("--checkout", "FOLDER", "what to promote (default: this checkout)"),
            _path("--seeds", "FILE", "JSON: what exists in each account from the start"),
            _PORT,
            _state(".trainyard/pipeline-<name>"),
        ),
    ),
    "lab": (emulated.lab, ()),
    "diff": (
        verdicts.diff,
        (
            _ENV,
            _value("--against", "GIT_REF", "compare with this revision; needs no credentials and no emulated AWS"),
            _flag("--no-cdk-diff", "leave out the CDK's own diff (faster)"),
            *_ACCOUNT,
            *_REPORT,
        ),
    ),
    "gate": (
        verdicts.gate,
        (
            _ENV,
            _path("--assembly", "FOLDER", "what will be deployed", required=True),
            _path("--output", "FOLDER", "folder for the report", required=True),
        ),
    ),
    "preflight": (verdicts.preflight, (_ENV, *_ACCOUNT, *_REPORT)),
    "validate": (
        verdicts.validate,
        (
            _ENV,
            *_ACCOUNT,
            *_REPORT,
            [
                _value("--only", "LIST", _ONLY, type=_checks),
                _value("--skip", "LIST", "all checks except these", type=_checks, default=()),
            ],
            _value("--nodes", "N", "most nodes of a job, or all (default 2)", type=_nodes, default=2),
            _flag("--drain", "drain the nodes that scan, hello-gpu, gpu-check, gpu-burn and pairs find bad"),
            _value(
                "--image", "NAME", "image for gpu-burn, pairs, nccl and storage (default: validation.image)", default=""
            ),
            _value(
                "--start-minutes",
                "N",
                "longest wait of a job for its nodes, also 0.5 (default 30)",
                type=_minutes,
                default=30,
            ),
            _number("--total-minutes", 7 * 24 * 60, 200, "longest time of all jobs together"),
            _number("--node-minutes", 24 * 60, 30, "longest work of each node for all checks but storage"),
            _number("--storage-percent", 100, 80, "share of the provisioned throughput that few clients must reach"),
        ),
    ),
    "cost": (
        usage.cost,
        (
            _ENV,
            _value(
                "--since", "TIME", "begin, as 24h or 7d before the end, or a date in UTC (default 7d)", **SEVEN_DAYS
            ),
            _value("--until", "TIME", "end, likewise (default now)", type=_moment),
            _choice("--by", ("team", "user", "model", "job"), "what to add up by (default team)"),
            _value("--jobs", "N", "how many of the largest runs (default 20; --by job: all)", type=_between(1, 20_000)),
            *_ACCOUNT,
            _choice("--format", (*FORMATS, "csv"), "format of the report (default text)"),
            _path("--output", "FILE", "write the report there instead of printing it"),
        ),
    ),
    "notify": (verdicts.notify, (_ENV, *_ACCOUNT, *_REPORT, _flag("--test", "send a test message to all receivers"))),
    "data": (data.data, ()),
    "user": (users.user, ()),
    "drift": (verdicts.drift, (_ENV, *_ACCOUNT, *_REPORT)),
    "check": (
        files.check,
        (_value("names", "ENV", _ENV[1]["help"], nargs="+"), _flag("--pipeline", "the names are of pipeline files")),
    ),
    "names": (files.names, (_ENV,)),
    "schema": (
        files.schema,
        (
            [
                _flag("--pipeline", "of pipeline files"),
                _flag("--write", "update the checkout's schemas and reference pages instead"),
            ],
        ),
    ),
    "completion": (files.completion, (("shell", {"choices": ("bash", "zsh")}),)),
}
"""Function and options of each command. Options in a list exclude each other."""

_ON_A_NODE = (
    _value("--node", None, "a node's name (default head)", default="head"),
    _value("--user", None, "user (default: the cluster's user)", default=""),
)
LAB: dict[str, tuple[str, tuple[Option, ...]]] = {
    "up": (
        "Start it; a running one of the same name is stopped first.",
        (
            _value("environment", "ENV", "name or path (default local)", nargs="?", default="local"),
            _value("--nodes", None, "nodes of the first compute resource with GPUs (default 2)", type=int, default=2),
            _repeatable("--count", "QUEUE/COMPUTE=N", "instead of --nodes"),
            _value("--logins", None, "login nodes (default 0)", type=int, default=0),
            _choice("--base", ("bookworm", "trixie"), "bookworm: Slurm 22.05; trixie: Slurm 24.11"),
            _repeatable("--bind", "SOURCE:TARGET", "mount a folder read-only on all nodes"),
            _flag("--powered-down", "declare the environment's other nodes to Slurm too"),
            _flag("--metrics", "monitor it: exporters, Prometheus, Alertmanager"),
            _flag("--no-bootstrap", "leave the nodes as the AMI has them, with Pyxis on"),
        ),
    ),
    "down": ("Stop it and remove its files.", ()),
    "status": ("Show nodes and jobs.", ()),
    "shell": ("Open a shell on a node.", _ON_A_NODE),
    "run": ("Run a command on a node; exits as it does.", (*_ON_A_NODE, _LINE)),
}
_NAME = _value("name", "NAME", "name of the data set")
_SETS = (
    _ENV,
    *_ACCOUNT,
    _value("--folder", "FOLDER", "linked folder on the nodes (default: the one that imports)"),
    _number("--workers", 128, 16, "files and parts that are transferred at the same time"),
    _value("--part-mib", "N", "MiB of the parts of large files (default 32)", type=_between(5, 5120), default=32),
)
DATA: dict[str, tuple[str, tuple[Option, ...]]] = {
    "push": (
        "Upload a folder as a data set; what an interrupted push uploaded is kept.",
        (*_SETS, _NAME, _path("source", "FOLDER", "the files"), _flag("--replace", "overwrite objects that differ")),
    ),
    "list": ("List data sets and their state.", _SETS),
    "verify": (
        "Compare a data set with its manifest; status 1 if it differs.",
        (*_SETS, _NAME, _path("--local", "FOLDER", "compare this copy instead of the bucket")),
    ),
    "sample": (
        "Print the first records of a file: lines, or token ids.",
        (
            *(*_SETS, _NAME, _value("--file", "PATH", "file of the data set (default: the first with data)")),
            _number("--records", 1000, 5, "records"),
        ),
    ),
    "pull": (
        "Download a data set; an interrupted pull goes on.",
        (*_SETS, _NAME, _path("target", "FOLDER", "where to"), _flag("--force", "overwrite files that differ")),
    ),
    "exported": (
        "Check that a checkpoint arrived in S3; status 1 if not.",
        (
            *(_ENV, *_ACCOUNT, _value("checkpoint", "CHECKPOINT", "its folder on the nodes, or s3://")),
            _flag("--read", "read every object and compare its SHA-256"),
        ),
    ),
    "sweep": (
        "List old temporary objects and unfinished uploads.",
        (
            *(_ENV, *_ACCOUNT, _number("--days", 3650, 7, "least age in days")),
            _flag("--delete", "delete them"),
        ),
    ),
    "fetch": (
        "Download a pinned model or data set of the Hugging Face hub.",
        (
            _value("name", "NAME", "wikitext-2, qwen2.5-0.5b, or [datasets/]OWNER/NAME@COMMIT"),
            _path("target", "FOLDER", "where to"),
        ),
    ),
}
_LOGIN = _value("name", "NAME", "login name")
_NO_APPLY = _flag("--no-apply", "change the file only")
USER: dict[str, tuple[str, tuple[Option, ...]]] = {
    "add": (
        "Add a user to the people file with an id never used before, and apply it; a former user comes back.",
        (
            *(_ENV, _LOGIN, _repeatable("--key", "FILE", "SSH public key: a .pub file, or its line")),
            _repeatable("--team", "TEAM", "a team of the environment; the first pays for jobs by default"),
            _flag("--administrator", "may use sudo on head and login nodes"),
            _value("--home-quota-gib", "N", "most GiB in the home", type=_between(1, 2**31 - 1)),
            *(_NO_APPLY, *_ACCOUNT),
        ),
    ),
    "remove": ("Close a user's account; home and files stay.", (_ENV, _LOGIN, _NO_APPLY, *_ACCOUNT)),
    "list": ("List the people of the file.", (_ENV,)),
    "apply": (
        "Apply the file to the running cluster, without an update of it. Status 1: a node has a problem.",
        (_ENV, _flag("--plan", "only show what differs, and which nodes have problems"), *_ACCOUNT),
    ),
}
_WHICH_LAB = (_value("--name", None, "which laboratory (default lab)", default="lab"), _state(".trainyard/lab/NAME"))
ACTIONS = {
    "data": DATA,
    "user": USER,
    "lab": {action: (what, (*_WHICH_LAB, *its)) for action, (what, its) in LAB.items()},
}
"""Of commands that have some: what each does, and its options."""


class Parser(argparse.ArgumentParser):
    """Exits with FAILED on wrong use: argparse's own status, 2, is a verdict of `diff`."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:  # noqa: ANN401
        """Also take a topic after options: argparse looks for it right after ENV only (python/cpython#59317)."""
        found, more = super().parse_known_args(args, namespace)
        if more and more[0] in TOPICS and getattr(found, "topic", "") is None:
            found.topic = more.pop(0)
        return found, more

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and exit."""
        self.print_usage(sys.stderr)
        self.exit(FAILED, f"{self.prog}: {message}\n")


def parser() -> Parser:
    """The whole command line."""
    raw = argparse.RawDescriptionHelpFormatter
    statuses = "Exit statuses:\n" + "\n".join(f"  {status:>3}  {meaning}" for status, meaning in TABLE)
    top = Parser(prog="trainyard", description=DESCRIPTION, epilog=statuses, formatter_class=raw)
    top.add_argument("--no-color", action="store_true", help="print no colours (also: NO_COLOR=1)")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (run, options) in COMMANDS.items():
        text, *examples = (line.strip() for line in (run.__doc__ or "").splitlines())
        shown = "\n  ".join(["examples:", *filter(None, examples)])
        command = commands.add_parser(name, help=_brief(text), description=text, epilog=shown, formatter_class=raw)
        command.add_argument("--no-color", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        command.set_defaults(run=run, interrupted=INTERRUPTED.get(name, "There is no result."))
        _add(command, options)
        if name in ACTIONS:
            actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
            for action, (what, its) in ACTIONS[name].items():
                _add(actions.add_parser(action, help=_brief(what), description=what), its)
    return top


def _brief(text: str) -> str:
    return f"{text[0].lower()}{text[1:].rstrip('.')}"


def _add(command: Parser, options: Iterable[Option | list[Option]]) -> None:
    for option in options:
        if isinstance(option, list):
            group = command.add_mutually_exclusive_group()
            for name, arguments in option:
                group.add_argument(name, **arguments)
        else:
            command.add_argument(option[0], **option[1])

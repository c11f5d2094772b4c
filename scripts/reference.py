"""Write docs/cli.md and docs/permissions.md from the command's parser and the lists of IAM actions.

.venv/bin/python scripts/reference.py           # write
.venv/bin/python scripts/reference.py --check   # exit status 1 if a page is out of date
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from cli.exits import TABLE
from cli.parser import parser

from ops.drift.permissions import AUTHORIZED, CALLED
from trainyard.pipeline.actions import ASSUME, PREFLIGHT, VALIDATION
from trainyard.pipeline.permissions import DIFF

ROOT = Path(__file__).resolve().parents[1]


def subcommands(command: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The subcommands of a command, by name."""
    for action in command._actions:  # argparse offers no public way to list them
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def options(command: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """Each argument as written on a command line, and its meaning."""
    for action in command._actions:
        if action.help == argparse.SUPPRESS or isinstance(action, (argparse._HelpAction, argparse._SubParsersAction)):
            continue
        value = (
            ""
            if action.nargs == 0
            else action.metavar or ("\\|".join(map(str, action.choices)) if action.choices else action.dest.upper())
        )
        name = f"{'`, `'.join(action.option_strings)} {value}".strip()
        yield f"`{name}`", (action.help or "").replace("|", "\\|").replace("%%", "%").replace("<", "&lt;")


def section(name: str, command: argparse.ArgumentParser, level: int) -> Iterator[str]:
    """One command: description, options, examples, then its subcommands."""
    yield f"{'#' * level} {name}\n"
    if command.description:
        yield f"{command.description}\n"
    if rows := list(options(command)):
        yield "| Argument | Meaning |\n|---|---|"
        yield from (f"| {argument} | {meaning} |" for argument, meaning in rows)
        yield ""
    if command.epilog and command.epilog.startswith("examples:"):
        examples = [line.strip() for line in command.epilog.splitlines()[1:]]
        yield "\n".join(["```console", *examples, "```\n"])
    for inner, parsed in subcommands(command).items():
        yield from section(f"{name} {inner}", parsed, level + 1)


def command_line() -> str:
    """docs/cli.md."""
    top = parser()
    lines = [
        "# Command line\n",
        "<!-- Written by scripts/reference.py (make schema). Do not edit. -->\n",
        f"{top.description}\n",
        "`make setup` installs the command in `.venv/bin`; `source .venv/bin/activate` puts it on the PATH. The `make`",
        "target of the same name runs it with `ENV`, `ON`, `PORT`, `FORMAT`, `OUTPUT` and `AGAINST` as variables; make",
        "itself ends with 2 whatever status a command fails with.\n",
        "Every command takes `--help` and `--no-color`.\n",
        "## Exit statuses\n",
        "| Status | Meaning |\n|---|---|",
        *(f"| {status} | {meaning} |" for status, meaning in TABLE),
        "",
    ]
    for name, command in subcommands(top).items():
        lines += section(name, command, 2)
    return "\n".join(lines).rstrip() + "\n"


def permissions() -> str:
    """docs/permissions.md."""
    groups = (
        ("diff --on aws", "On the environment's own stacks.", DIFF),
        ("preflight --on aws", "On `*`: these reads know no resources, or are asked of all resources.", PREFLIGHT),
        (
            "preflight --on aws and drift --on aws, to ask the ParallelCluster API",
            "On the API's user role (output `ParallelClusterApiUserRole`), which may do everything that the API can.",
            (ASSUME,),
        ),
        (
            "validate --on aws",
            "`ssm:GetParameter` on `/trainyard/<environment>/validation/document`. `ssm:SendCommand` on the document "
            "which that parameter names, and on the head node (tags `parallelcluster:cluster-name` and "
            "`parallelcluster:node-type=HeadNode`). The others on `*`.",
            VALIDATION,
        ),
        (
            "drift --on aws",
            "On `*`, with AWS's ReadOnlyAccess: CloudFormation reads each resource with the caller's rights.",
            tuple(sorted((*CALLED, *AUTHORIZED))),
        ),
    )
    lines = [
        "# Permissions\n",
        "<!-- Written by scripts/reference.py (make schema). Do not edit. -->\n",
        "IAM actions of each command on AWS. Tests compare the lists with the calls that are made. The roles of a",
        "promotion have the same lists, on narrower resources ([promotion](promotion.md#roles)). A deployment uses the",
        "roles of `cdk bootstrap`.\n",
    ]
    for title, resources, actions in groups:
        lines += [f"## {title}\n", f"{resources}\n", *(f"- `{action}`" for action in actions), ""]
    return "\n".join(lines).rstrip() + "\n"


PAGES = {ROOT / "docs" / "cli.md": command_line, ROOT / "docs" / "permissions.md": permissions}


def main() -> int:
    """Write the pages, or compare them."""
    old = [page.name for page, make in PAGES.items() if not page.exists() or page.read_text("utf-8") != make()]
    if "--check" in sys.argv[1:]:
        if old:
            print(f"{', '.join(old)}: out of date. Run `make schema` and commit what it writes.", file=sys.stderr)
        return int(bool(old))
    for page, make in PAGES.items():
        page.write_text(make(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

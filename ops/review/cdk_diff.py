"""The CDK CLI's own diff."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from ops.problem import Problem
from ops.review.stacks import Stacks

ROOT = Path(__file__).resolve().parents[2]
CDK = ROOT / "node_modules" / ".bin" / "cdk"
LIMIT_S = 600
WIDTH = "1000"
"""Of the CLI's tables, which it cuts to the caller's terminal: nobody finds a name that is cut into lines."""

_PROGRESS = ("start: ", "success: ", "Hold on while we create a read-only change set")
_COUNTED = re.compile(r"Number of stacks with differences: [1-9]")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def against_account(environment: Path, output: Path) -> str:
    """`cdk diff` of all stacks against what the credentials in the environment variables reach.

    Synthesizes into `output`, bundled as a deployment would be.

    Raises:
        Problem: the CLI fails: no credentials, a fault in the environment file.
    """
    return _run(["diff", "--context", f"env={environment}", "--output", str(output)], os.environ)


def against_templates(old: Stacks, new: Stacks, assembly: Path) -> str:
    """`cdk diff --template` of every stack that differs; asks no account."""
    return "\n".join(said for _, said in _each(old, new, assembly, []))


def permissions(old: Stacks, new: Stacks, assembly: Path) -> str:
    """What is broadened of IAM and of security groups, as the CLI tells it; empty where nothing is. Asks no account.

    What only takes away is not told; what the CLI does not look into is in `review.permissions`.

    Raises:
        Problem: the CLI fails.
    """
    return "\n".join(said for differs, said in _each(old, new, assembly, ["--security-only", "--fail"]) if differs)


def _each(old: Stacks, new: Stacks, assembly: Path, options: list[str]) -> Iterator[tuple[bool, str]]:
    """Of each stack with another template: whether the CLI, with --fail, tells of a difference; and what it says."""
    with tempfile.TemporaryDirectory(prefix="trainyard-review-") as folder:
        for key, stack in new.items():
            before = old[key].template if key in old else {}
            if before == stack.template:
                continue
            template = Path(folder) / f"{key}.json"
            template.write_text(json.dumps(before), "utf-8")
            kept = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
            selected = ["--exclusively", "--app", str(assembly), stack.path or key, "--template", str(template)]
            yield _asked(["diff", *selected, *options], kept)


def without_progress(said: str) -> str:
    """What the CLI said, without its lines on the publication of assets."""
    return "\n".join(line for line in said.splitlines() if not line.startswith(_PROGRESS))


def _run(arguments: list[str], environment: Mapping[str, str]) -> str:
    return _asked(arguments, environment)[1]


def _asked(arguments: list[str], environment: Mapping[str, str]) -> tuple[bool, str]:
    if not CDK.exists():
        raise Problem("The CDK CLI is not installed. Install the project's tools with: make setup")
    result = subprocess.run(
        [str(CDK), *arguments],
        cwd=ROOT,
        env={**environment, "COLUMNS": WIDTH},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    said = _COLOURS.sub("", result.stdout).strip()
    # With --fail a difference and an error end alike, but only a difference is counted.
    differs = result.returncode == 1 and "--fail" in arguments and _COUNTED.search(said) is not None
    if result.returncode and not differs:
        raise Problem(f"cdk diff failed:\n{said[-3000:]}")
    return differs, said

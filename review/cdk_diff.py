"""The CDK CLI's own diff."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from review.problem import Problem
from review.stacks import Stacks

ROOT = Path(__file__).resolve().parents[1]
CDK = ROOT / "node_modules" / ".bin" / "cdk"
LIMIT_S = 600

_PROGRESS = ("start: ", "success: ", "Hold on while we create a read-only change set")
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
    said = []
    with tempfile.TemporaryDirectory(prefix="trainyard-review-") as folder:
        for key, stack in new.items():
            before = old[key].template if key in old else {}
            if before == stack.template:
                continue
            template = Path(folder) / f"{key}.json"
            template.write_text(json.dumps(before), "utf-8")
            kept = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
            said.append(_run(["diff", "--exclusively", "--app", str(assembly), key, "--template", str(template)], kept))
    return "\n".join(said)


def without_progress(said: str) -> str:
    """What the CLI said, without its lines on the publication of assets."""
    return "\n".join(line for line in said.splitlines() if not line.startswith(_PROGRESS))


def _run(arguments: list[str], environment: Mapping[str, str]) -> str:
    if not CDK.exists():
        raise Problem("The CDK CLI is not installed. Install the project's tools with: make setup")
    result = subprocess.run(
        [str(CDK), *arguments],
        cwd=ROOT,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    said = _COLOURS.sub("", result.stdout).strip()
    if result.returncode:
        raise Problem(f"cdk diff failed:\n{said[-3000:]}")
    return said

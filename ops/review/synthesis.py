"""Synthesis of an environment with the code of a checkout: this one, or another revision of it."""

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ops.problem import Problem
from ops.review.stacks import Stack, synthesized

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 300


def synthesize(checkout: Path, environment: Path, output: Path, *, bundle: bool = False) -> dict[str, Stack]:
    """Run the app of `checkout` with this checkout's packages, into `output`.

    With `bundle`, functions are bundled as for a deployment, which may download packages. Otherwise the hashes of their
    assets come from their sources, so that two checkouts can be compared. Raises Problem where the app does not run.
    """
    try:
        context = json.loads((checkout / "cdk.json").read_text("utf-8"))["context"]
        project = tomllib.loads((checkout / "pyproject.toml").read_text("utf-8"))
        folders = project["tool"]["hatch"]["build"]["dev-mode-dirs"]
    except (OSError, ValueError, KeyError) as error:
        raise Problem(f"{checkout} has no app of this project: {type(error).__name__}: {error}") from error
    context |= {"env": str(environment), "aws:cdk:bundling-stacks": ["**"] if bundle else []}
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "CDK_"))}
    variables = {
        **kept,
        # The checkout's own packages come before the installed ones.
        "PYTHONPATH": os.pathsep.join(str(checkout / folder) for folder in folders),
        "PYTHONDONTWRITEBYTECODE": "1",
        "CDK_OUTDIR": str(output),
        "CDK_CONTEXT_JSON": json.dumps(context),
        "CDK_VALIDATION": "false",
    }
    command = [sys.executable, str(checkout / "app.py")]
    try:
        result = subprocess.run(
            command, cwd=checkout, env=variables, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise Problem(f"{environment.name} was not synthesized within {LIMIT_S} s. Run the command again.") from error
    if result.returncode:
        raise Problem(f"{environment.name} cannot be synthesized:\n{result.stderr.strip()[-3000:]}")
    return synthesized(output)


@contextmanager
def revision(name: str) -> Iterator[Path]:
    """A temporary work tree of a git revision. Raises Problem where git does not know the revision."""
    commit = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if commit is None:
        raise Problem(
            f"git does not know the revision {name!r}. Give a branch, a tag or a commit of this repository; in CI, "
            "fetch it first (a checkout of depth 1 has one commit only)."
        )
    with tempfile.TemporaryDirectory(prefix="trainyard-review-") as folder:
        tree = Path(folder) / "tree"
        if _git("worktree", "add", "--quiet", "--detach", str(tree), commit) is None:
            raise Problem(f"git cannot create a work tree of {name} in {folder}.")
        try:
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


def _git(*arguments: str) -> str | None:
    try:
        result = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise Problem("--against needs git, which is not installed.") from error
    return result.stdout.strip() if result.returncode == 0 else None

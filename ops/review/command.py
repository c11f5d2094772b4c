"""The two sides of a diff: a file's synthesis against another revision, or against what is deployed."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ops.review.cdk import diff_text
from ops.review.stacks import deployed
from ops.review.synthesis import ROOT, revision, synthesize
from ops.review.verdict import Verdict, judge
from settings import Environment

if TYPE_CHECKING:
    import boto3


def against_revision(file: Path, environment: Environment, name: str, *, with_cdk: bool) -> tuple[Verdict, str]:
    """The verdict on a file against another git revision's code and file, and the CDK's diff if `with_cdk`.

    Raises:
        Problem: git does not know the revision, or one side cannot be synthesized.
    """
    with tempfile.TemporaryDirectory(prefix="trainyard-review-") as folder, revision(name) as tree:
        new = synthesize(ROOT, file, Path(folder) / "new")
        there = tree / file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
        # A file that the other revision does not have yet describes a new environment.
        old = synthesize(tree, there, Path(folder) / "old") if there.exists() else {}
        verdict = judge(environment.name, f"revision {name}", old, new)
        return verdict, diff_text(old, new) if with_cdk else ""


def against_account(
    file: Path, environment: Environment, session: boto3.Session, *, with_cdk: bool
) -> tuple[Verdict, str]:
    """The verdict on a file against what the session's credentials reach, and the CDK's diff if `with_cdk`.

    Raises:
        Problem: no credentials, or the environment cannot be synthesized.
    """
    with tempfile.TemporaryDirectory(prefix="trainyard-review-") as folder:
        new = synthesize(ROOT, file, Path(folder), bundle=True)
        old = deployed(session.client("cloudformation"), new)
        verdict = judge(environment.name, f"what is deployed in {environment.account}", old, new)
        return verdict, diff_text(old, new) if with_cdk else ""

"""`trainyard diff` and `trainyard gate`: the verdict on a file or an assembly against what is deployed."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ops.cost.change import change
from ops.drift.survey import jobs_on, not_as_deployed
from ops.problem import Problem
from ops.review.cdk import TemplateDiff, template_diffs
from ops.review.permissions import not_counted_by_cdk
from ops.review.stacks import Stacks, deployed, never_created, synthesized
from ops.review.synthesis import ROOT, revision, synthesize
from ops.review.verdict import Verdict, judge
from settings import Environment

if TYPE_CHECKING:
    import boto3

HEADLINE_CHARACTERS = 300
"""CodePipeline allows 1000 characters for the message that contains the headline, a link and a few words."""

_SAME = "No permission is broadened."
_CHANGED = "**Permissions are broadened, or may be.** How is in permissions.txt, and in the log of the run."
_UNSAFE = re.compile(r"[^A-Za-z0-9 .,;:()\[\]/_+=-]")


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
        verdict = replace(verdict, cost=change(environment, old, new))
        return verdict, _text(template_diffs(old, new)) if with_cdk else ""


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
        return verdict_against(session, environment, old, new), _text(template_diffs(old, new)) if with_cdk else ""


def verdict_against(session: boto3.Session, environment: Environment, old: Stacks, new: Stacks) -> Verdict:
    """The verdict on synthesized stacks against the deployed ones, with what was changed outside CloudFormation."""
    verdict = judge(environment.name, f"what is deployed in {environment.account}", old, new)
    outside, unread = not_as_deployed(session, old)
    jobs = jobs_on(session, old, verdict.cluster.deleted)
    cost, cluster = change(environment, old, new), replace(verdict.cluster, jobs=jobs)
    return replace(verdict, cluster=cluster, outside=tuple(outside), unread=tuple(unread), cost=cost)


def _text(diffs: Sequence[TemplateDiff]) -> str:
    return "\n\n".join(diff.text for diff in diffs if diff.text)


def gate(environment: Environment, assembly: Path, output: Path) -> int:
    """Compare `assembly` with what is deployed, and write the files that a pipeline's approvals need into `output`.

    `verdict.md` is for people, `verdict.json` for programs; `permissions.txt` lists what broadens permissions, or may.
    `variables` has one line `NAME=value` each for LEVEL (nothing, safe, disruptive, destructive), PERMISSIONS (same
    where nothing is broadened, else changed) and HEADLINE. Returns 0, whatever the verdict: the approvals act on it.

    Raises:
        Problem: there is no verdict.
    """
    import boto3

    from ops.report import json_text, markdown
    from ops.report.commands import review_report

    new = synthesized(assembly)
    _require_environment(environment, assembly, new)
    client = boto3.Session(region_name=environment.region).client("cloudformation")
    if failed := never_created(client, new):
        # A verdict would call these stacks new, and their deployment would fail at the change set.
        found = "; ".join(f"the stack {name} is in {status}" for name, status in failed.items())
        options = f"--region {environment.region}"
        delete = "; ".join(f"aws cloudformation delete-stack --stack-name {name} {options}" for name in failed)
        raise Problem(
            f"No verdict: {found}. Its first creation failed, so it cannot be updated. Delete it, then run again: "
            f"{delete}"
        )
    old = deployed(client, new)
    verdict = judge(environment.name, f"what is deployed in {environment.account}", old, new)
    verdict = replace(verdict, cost=change(environment, old, new))
    diffs = template_diffs(old, new)
    broadened = [diff.security for diff in diffs if diff.broadened]
    if others := not_counted_by_cdk(verdict):
        broadened.append("\n".join(["The CDK does not count these, which may grant more:", *others]))
    output.mkdir(parents=True, exist_ok=True)
    report = review_report(verdict, _text(diffs))
    (output / "verdict.json").write_text(json_text(report), "utf-8")
    (output / "permissions.txt").write_text("\n\n".join(broadened or [_SAME]) + "\n", "utf-8")
    (output / "variables").write_text(variables(verdict, changed=bool(broadened)), "utf-8")
    # Last: a reader who finds it finds the others too.
    (output / "verdict.md").write_text(f"{markdown(report)}\n{_CHANGED if broadened else _SAME}\n", "utf-8")
    return 0


def variables(verdict: Verdict, *, changed: bool) -> str:
    """The lines of `variables`. Values have no character that is special in a shell, in JSON or in a pipeline."""
    cost = f" {verdict.cost.sentence('USD ')}." if verdict.cost and verdict.reasons else ""
    cost = _UNSAFE.sub("", f".{cost}" if cost else "")
    headline, room = _UNSAFE.sub("", verdict.headline), HEADLINE_CHARACTERS - len(cost)
    if len(headline) > room:
        headline = f"{headline[: room - 4]} ..."
    headline += cost
    permissions = "changed" if changed else "same"
    return f"LEVEL={verdict.level.name.lower()}\nPERMISSIONS={permissions}\nHEADLINE={headline}\n"


def _require_environment(environment: Environment, assembly: Path, stacks: Stacks) -> None:
    """An assembly of another environment would be compared with nothing and called safe."""
    strange = [stack.name for stack in stacks.values() if stack.name != f"{environment.name}-{stack.id}"]
    if strange or not stacks or {stack.region for stack in stacks.values()} != {environment.region}:
        found = ", ".join(sorted(stack.name for stack in stacks.values())) or "no stack"
        raise Problem(
            f"{assembly} is not an assembly of {environment.name} in {environment.region}: it has {found}. "
            "Give the folder that a synthesis of this environment wrote."
        )

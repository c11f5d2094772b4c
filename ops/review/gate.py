"""The verdict on an assembly before its deployment, in the files that a pipeline's approvals need.

`verdict.md` is for people, `verdict.json` for programs; `permissions.txt` lists what broadens permissions, or may.
`variables` has one line `NAME=value` each for LEVEL (nothing, safe, disruptive, destructive), PERMISSIONS (same where
nothing is broadened, else changed) and HEADLINE.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import boto3

from ops.problem import Problem
from ops.report import json_text, markdown
from ops.report.review import review_report
from ops.review.cdk import template_diffs
from ops.review.permissions import not_counted_by_cdk
from ops.review.stacks import Stacks, deployed, never_created, synthesized
from ops.review.verdict import Verdict, judge
from settings import Environment

HEADLINE_CHARACTERS = 300
"""CodePipeline allows 1000 characters for the message that contains the headline, a link and a few words."""

UNCHANGED = "No permission is broadened."

_UNSAFE = re.compile(r"[^A-Za-z0-9 .,;:()\[\]/_+=-]")


def gate(environment: Environment, assembly: Path, output: Path) -> int:
    """Compare `assembly` with what is deployed, and write the report into the folder `output`.

    Returns 0, whatever the verdict: the approvals act on it.

    Raises:
        Problem: there is no verdict.
    """
    new = synthesized(assembly)
    _require_environment(environment, assembly, new)
    client = boto3.Session(region_name=environment.region).client("cloudformation")
    _require_updatable(never_created(client, new), environment.region)
    old = deployed(client, new)
    verdict = judge(environment.name, f"what is deployed in {environment.account}", old, new)
    diffs = template_diffs(old, new)
    changed = _permissions([diff.security for diff in diffs if diff.broadened], not_counted_by_cdk(verdict))
    text = "\n\n".join(diff.text for diff in diffs if diff.text)
    output.mkdir(parents=True, exist_ok=True)
    report = review_report(verdict, text)
    (output / "verdict.json").write_text(json_text(report), "utf-8")
    (output / "permissions.txt").write_text(f"{changed or UNCHANGED}\n", "utf-8")
    (output / "variables").write_text(variables(verdict, changed=bool(changed)), "utf-8")
    # Last: a reader who finds it finds the others too.
    (output / "verdict.md").write_text(f"{markdown(report)}{_note(changed)}", "utf-8")
    return 0


def variables(verdict: Verdict, *, changed: bool) -> str:
    """The lines of `variables`. Values have no character that is special in a shell, in JSON or in a pipeline."""
    headline = _UNSAFE.sub("", verdict.headline)
    if len(headline) > HEADLINE_CHARACTERS:
        headline = f"{headline[: HEADLINE_CHARACTERS - 4]} ..."
    permissions_now = "changed" if changed else "same"
    return f"LEVEL={verdict.level.name.lower()}\nPERMISSIONS={permissions_now}\nHEADLINE={headline}\n"


def _permissions(broadened: Sequence[str], others: Sequence[str]) -> str:
    """The content of permissions.txt; empty where nothing is broadened."""
    noted = ["\n".join(["The CDK does not count these, which may grant more:", *others])] if others else []
    return "\n\n".join([*broadened, *noted])


def _note(changed: str) -> str:
    if not changed:
        return f"\n{UNCHANGED}\n"
    return "\n**Permissions are broadened, or may be.** How is in permissions.txt, and in the log of the run.\n"


def _require_updatable(failed: Mapping[str, str], region: str) -> None:
    """A verdict would call these stacks new, and their deployment would fail at the change set."""
    if failed:
        found = "; ".join(f"the stack {name} is in {status}" for name, status in failed.items())
        delete = "; ".join(f"aws cloudformation delete-stack --stack-name {name} --region {region}" for name in failed)
        raise Problem(
            f"No verdict: {found}. Its first creation failed, so it cannot be updated. Delete it, then run again: "
            f"{delete}. Only resources that its template retains stay in the account, and may keep names that the "
            "next creation needs."
        )


def _require_environment(environment: Environment, assembly: Path, stacks: Stacks) -> None:
    """An assembly of another environment would be compared with nothing and called safe."""
    strange = [stack.name for stack in stacks.values() if stack.name != f"{environment.name}-{stack.id}"]
    if strange or not stacks or {stack.region for stack in stacks.values()} != {environment.region}:
        found = ", ".join(sorted(stack.name for stack in stacks.values())) or "no stack"
        raise Problem(
            f"{assembly} is not an assembly of {environment.name} in {environment.region}: it has {found}. "
            "Give the folder that a synthesis of this environment wrote."
        )

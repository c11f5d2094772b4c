"""The verdict on an assembly that is about to be deployed, in the forms that a pipeline's approvals need.

`verdict.md` is for people, `verdict.json` for programs, `permissions.txt` has what broadens permissions, or may.
`variables` has a line `NAME=value` each for LEVEL (nothing, safe, disruptive, destructive), PERMISSIONS (same: nothing
is broadened; changed) and HEADLINE.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import boto3

from ops.problem import Problem
from ops.report import json_text, markdown
from ops.report.review import review_report
from ops.review.cdk_diff import against_templates, permissions, without_progress
from ops.review.permissions import beside_cli
from ops.review.stacks import Stacks, deployed, never_created, synthesized
from ops.review.verdict import Verdict, judge
from settings import Environment

HEADLINE_CHARACTERS = 300
"""CodePipeline takes 1000 characters where the headline goes, with a link and some words beside it."""

UNCHANGED = "No permission is broadened."

_UNSAFE = re.compile(r"[^A-Za-z0-9 .,;:()\[\]/_+=-]")


def gate(environment: Environment, assembly: Path, output: Path) -> int:
    """Compare `assembly` with what is deployed, and write the report into the folder `output`.

    Returns 0, whatever the verdict: the approvals act on it.

    Raises:
        Problem: there is no verdict.
    """
    new = synthesized(assembly)
    _of_environment(environment, assembly, new)
    client = boto3.Session(region_name=environment.region).client("cloudformation")
    _can_be_updated(never_created(client, new), environment.region)
    old = deployed(client, new)
    verdict = judge(environment.name, f"what is deployed in {environment.account}", old, new)
    changed = _permissions(without_progress(permissions(old, new, assembly)).strip(), beside_cli(verdict))
    said = without_progress(against_templates(old, new, assembly))
    output.mkdir(parents=True, exist_ok=True)
    report = review_report(verdict, said)
    (output / "verdict.json").write_text(json_text(report), "utf-8")
    (output / "permissions.txt").write_text(f"{changed or UNCHANGED}\n", "utf-8")
    (output / "variables").write_text(variables(verdict, changed=bool(changed)), "utf-8")
    # Last: who finds it finds the others.
    (output / "verdict.md").write_text(f"{markdown(report)}{_told(changed)}", "utf-8")
    return 0


def variables(verdict: Verdict, *, changed: bool) -> str:
    """The lines of `variables`. Values hold no character that a shell, JSON or a pipeline takes for its own."""
    headline = _UNSAFE.sub("", verdict.headline)
    if len(headline) > HEADLINE_CHARACTERS:
        headline = f"{headline[: HEADLINE_CHARACTERS - 4]} ..."
    permissions_now = "changed" if changed else "same"
    return f"LEVEL={verdict.level.name.lower()}\nPERMISSIONS={permissions_now}\nHEADLINE={headline}\n"


def _permissions(by_cli: str, beside: Sequence[str]) -> str:
    """What goes into permissions.txt; empty where nothing is broadened."""
    told = "\n".join(["Not seen by the CDK CLI, and not weighed: these may grant more.", *beside]) if beside else ""
    return "\n\n".join(part for part in (by_cli, told) if part)


def _told(changed: str) -> str:
    if not changed:
        return f"\n{UNCHANGED}\n"
    return "\n**Permissions are broadened, or may be.** How is in permissions.txt, and in the log of the run.\n"


def _can_be_updated(failed: Mapping[str, str], region: str) -> None:
    """A verdict would call such a stack new, and the deployment would fail at its change set."""
    if failed:
        found = "; ".join(f"the stack {name} is in {status}" for name, status in failed.items())
        delete = "; ".join(f"aws cloudformation delete-stack --stack-name {name} --region {region}" for name in failed)
        raise Problem(
            f"No verdict: {found}. Its first creation failed, and nothing can update it. Delete it, then run again: "
            f"{delete}. Nothing of value is in it unless its template retains resources: those stay in the account, "
            "and may hold the names that the next creation wants."
        )


def _of_environment(environment: Environment, assembly: Path, stacks: Stacks) -> None:
    """An assembly of another environment would be compared with nothing, and be called safe."""
    strange = [stack.name for stack in stacks.values() if stack.name != f"{environment.name}-{stack.id}"]
    if strange or not stacks or {stack.region for stack in stacks.values()} != {environment.region}:
        found = ", ".join(sorted(stack.name for stack in stacks.values())) or "no stack"
        raise Problem(
            f"{assembly} is no assembly of {environment.name} in {environment.region}: it holds {found}. Name the "
            "folder that a synthesis of this environment wrote."
        )

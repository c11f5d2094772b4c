"""Slurm's accounts, qualities of service and reservations, compared with the published people.json by the head node."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ops.drift.deployed_stack import DeployedStack
from ops.drift.findings import Finding
from ops.problem import Problem
from ops.validation import head_node

if TYPE_CHECKING:
    import boto3

PART = "shares"
ADVICE = "The head node sets it back within minutes (trainyard-people.timer). To keep it, change the environment file."
# As cluster_assets/people/apply_shares.py prints it.
_CHANGE = re.compile(r"(?P<subject>[^:]+): (?P<path>\w+) is '(?P<actual>.*)', not '(?P<expected>.*)'")


def check(session: boto3.Session, stack: DeployedStack, cluster: str) -> Iterator[Finding]:
    """Ask the head node of a cluster with the people document of its stack; nothing without that document.

    Raises:
        Problem: the head node or Slurm does not answer, or the permission is missing.
    """
    for document in (item for item in stack.of("AWS::SSM::Document") if "PeopleDocument" in item.logical_id):
        instance = head_node.find(session.client("ec2"), cluster)
        answer = head_node.HeadNode(session.client("ssm"), instance, document.physical_id, "people").ask("plan")
        found = answer.get("shares") or {}
        if problems := found.get("problems"):
            raise Problem("; ".join(problems))
        yield from findings(found)


def findings(plan: Mapping[str, Any]) -> Iterator[Finding]:
    """The changes that apply_shares.py would make, as differences."""
    for change in plan.get("changes", []):
        match = _CHANGE.fullmatch(change)
        if match:
            path = "" if match["path"] == "it" else match["path"]
            yield Finding(PART, match["subject"], path, match["expected"], match["actual"], ADVICE)
        else:
            yield Finding(PART, change, "", "as in the environment file", "different", ADVICE)

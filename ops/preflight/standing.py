"""What of the environment stands already, so that nothing is counted twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from botocore.exceptions import ClientError

from ops.preflight.aws import Reader
from settings import Environment

PARTS = ("network", "storage", "images", "api", "cluster")
"""Stacks whose resources count towards something that is asked."""

_GONE = ("DELETE_COMPLETE", "CREATE_FAILED", "DELETE_SKIPPED")


@dataclass(frozen=True)
class Standing:
    """The resources of the stacks that stand.

    By part of the environment, physical ids by logical id, and by resource type, physical ids. What a destroyed stack
    left behind is in no stack and so not among them: a new deployment makes those resources again.
    """

    by_part: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    by_type: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def ids(self, resource_type: str) -> frozenset[str]:
        """Physical ids of all resources of a CloudFormation type."""
        return self.by_type.get(resource_type, frozenset())


def stack_name(environment: Environment, part: str) -> str:
    """The name of a stack; `stacks.environment_stack` gives it."""
    return f"{environment.name}-{part}"


def look(aws: Reader, environment: Environment) -> Standing:
    """The environment's stacks.

    Raises:
        Denied: CloudFormation may not be asked.
    """
    by_part: dict[str, dict[str, str]] = {}
    by_type: dict[str, set[str]] = {}
    for part in PARTS:
        try:
            found = list(
                aws.items(
                    "cloudformation",
                    "list_stack_resources",
                    "StackResourceSummaries",
                    StackName=stack_name(environment, part),
                )
            )
        except ClientError as error:
            if "does not exist" in str(error):
                continue
            raise
        for resource in found:
            if resource["ResourceStatus"] in _GONE or not resource.get("PhysicalResourceId"):
                continue
            by_part.setdefault(part, {})[resource["LogicalResourceId"]] = resource["PhysicalResourceId"]
            by_type.setdefault(resource["ResourceType"], set()).add(resource["PhysicalResourceId"])
    return Standing(by_part, {kind: frozenset(ids) for kind, ids in by_type.items()})

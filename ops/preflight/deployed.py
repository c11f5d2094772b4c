"""The resources of the environment that are deployed already, so that checks do not count them twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from botocore.exceptions import ClientError

from ops.preflight.aws import Reader
from settings import Environment
from settings.stacks import stack_name

_PARTS = ("network", "storage", "images", "api", "cluster")
_NOT_THERE = ("DELETE_COMPLETE", "CREATE_FAILED", "DELETE_SKIPPED")


@dataclass(frozen=True)
class DeployedStacks:
    """Physical ids of the resources of the environment's stacks.

    Resources that a destroyed stack left behind are not among them: a new deployment creates those again.

    Attributes:
        by_part: by the stack's part of the environment, and logical id.
        by_type: by CloudFormation type.
    """

    by_part: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    by_type: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def ids(self, resource_type: str) -> frozenset[str]:
        """Physical ids of all resources of a CloudFormation type."""
        return self.by_type.get(resource_type, frozenset())


def deployed_stacks(aws: Reader, environment: Environment) -> DeployedStacks:
    """Read the environment's stacks.

    Raises:
        Denied: reading CloudFormation is not allowed.
    """
    by_part: dict[str, dict[str, str]] = {}
    by_type: dict[str, set[str]] = {}
    for part in _PARTS:
        name = stack_name(environment, part)
        try:
            found = list(aws.items("cloudformation", "list_stack_resources", "StackResourceSummaries", StackName=name))
        except ClientError as error:
            if "does not exist" in str(error):
                continue
            raise
        for resource in found:
            physical_id = resource.get("PhysicalResourceId")
            if physical_id and resource["ResourceStatus"] not in _NOT_THERE:
                by_part.setdefault(part, {})[resource["LogicalResourceId"]] = physical_id
                by_type.setdefault(resource["ResourceType"], set()).add(physical_id)
    return DeployedStacks(by_part, {kind: frozenset(ids) for kind, ids in by_type.items()})

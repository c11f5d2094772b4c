"""Deployed stacks, as CloudFormation describes them: resources, outputs, tags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from ops.problem import Problem
from ops.review.stacks import Stacks, deployed

if TYPE_CHECKING:
    from types_boto3_cloudformation import CloudFormationClient

NESTED = "AWS::CloudFormation::Stack"


@dataclass(frozen=True)
class Resource:
    """One resource of a stack. `physical_id` is empty where it has none."""

    logical_id: str
    kind: str
    physical_id: str

    @property
    def subject(self) -> str:
        """The resource as the report names it."""
        return f"{self.logical_id} ({' '.join(filter(None, (self.kind, self.physical_id)))})"


@dataclass(frozen=True)
class DeployedStack:
    """One stack.

    Attributes:
        name: its name; for a nested stack `<outer stack>/<logical id>`.
        id: its ARN.
        template: as it was deployed; empty for a stack that this project did not synthesize.
    """

    name: str
    id: str
    status: str
    resources: Mapping[str, Resource]
    outputs: Mapping[str, str]
    exports: Mapping[str, str]
    parameters: Mapping[str, str]
    tags: Mapping[str, str]
    template: Mapping[str, Any]

    @property
    def region(self) -> str:
        return self.id.split(":")[3]

    def of(self, *kinds: str) -> Iterator[Resource]:
        """The resources of these types, in the order of the stack."""
        return (resource for resource in self.resources.values() if resource.kind in kinds)


def read(
    client: CloudFormationClient, name: str, *, shown: str = "", template: Mapping[str, Any] | None = None
) -> DeployedStack:
    """One stack, by name or ARN. Raises ClientError where CloudFormation denies access or has no such stack."""
    [stack] = client.describe_stacks(StackName=name)["Stacks"]
    pages = client.get_paginator("list_stack_resources").paginate(StackName=name)
    listed = [
        Resource(item["LogicalResourceId"], item["ResourceType"], item.get("PhysicalResourceId", ""))
        for page in pages
        for item in page["StackResourceSummaries"]
        if item["ResourceStatus"] != "DELETE_COMPLETE"
    ]
    outputs = stack.get("Outputs", [])
    return DeployedStack(
        name=shown or stack["StackName"],
        id=stack["StackId"],
        status=stack["StackStatus"],
        resources={resource.logical_id: resource for resource in listed},
        outputs={item["OutputKey"]: item["OutputValue"] for item in outputs},
        exports={item["ExportName"]: item["OutputValue"] for item in outputs if "ExportName" in item},
        parameters={item["ParameterKey"]: item.get("ParameterValue", "") for item in stack.get("Parameters", [])},
        tags={item["Key"]: item["Value"] for item in stack.get("Tags", [])},
        template=template or {},
    )


def own(client: CloudFormationClient, wanted: Stacks) -> dict[str, DeployedStack]:
    """The environment's deployed stacks, by construct id.

    Raises:
        Problem: CloudFormation denies access, nothing is deployed, or a stack is being changed.
    """
    templates = deployed(client, wanted)
    if not templates:
        raise Problem(
            f"None of the stacks {', '.join(stack.name for stack in wanted.values())} is deployed here, so there is "
            "nothing to compare. Deploy first, or use credentials of the account that has them."
        )
    try:
        found = {key: read(client, stack.name, template=stack.template) for key, stack in templates.items()}
    except ClientError as error:
        raise Problem(f"CloudFormation does not describe the stacks: {error}") from error
    busy = [f"{stack.name} is {stack.status}" for stack in found.values() if stack.status.endswith("_IN_PROGRESS")]
    if busy:
        raise Problem(f"{'; '.join(busy)}. Wait until that has ended, then try again.")
    return found


def nested(client: CloudFormationClient, stack: DeployedStack) -> Iterator[DeployedStack]:
    """The nested stacks of a stack, at any depth. Raises ClientError where CloudFormation denies access."""
    for resource in stack.of(NESTED):
        if resource.physical_id:
            inner = read(client, resource.physical_id, shown=f"{stack.name}/{resource.logical_id}")
            yield inner
            yield from nested(client, inner)

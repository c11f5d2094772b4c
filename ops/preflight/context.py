"""What every check gets: the environment, the account, and lookups that several checks share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from botocore.exceptions import ClientError

from ops.preflight.aws import Aws, code_of
from ops.review.stacks import Stacks
from ops.review.synthesis import ROOT, synthesize
from settings import Environment
from settings.model.cluster import Queue
from settings.stacks import HOST_TAG, STACKS, stack_name

_NOT_THERE = ("DELETE_COMPLETE", "CREATE_FAILED", "DELETE_SKIPPED")
_COUNTED_STATES = ("pending", "running", "stopping", "shutting-down")


class Resource(NamedTuple):
    """A resource of the environment's stack `part`, by its CloudFormation type and ids."""

    part: str
    type: str
    logical_id: str
    physical_id: str


def deployed(aws: Aws, environment: Environment) -> Iterator[Resource]:
    """The resources of the environment's stacks, so that checks do not count them twice.

    Resources that a destroyed stack left behind are not among them: a new deployment creates those again.

    Raises:
        Denied: reading CloudFormation is not allowed.
    """
    for part in STACKS:
        name = stack_name(environment, part)
        try:
            found = list(aws.items("cloudformation", "list_stack_resources", "StackResourceSummaries", StackName=name))
        except ClientError as error:
            if "does not exist" not in str(error):
                raise
            continue
        for item in found:
            if item.get("PhysicalResourceId") and item["ResourceStatus"] not in _NOT_THERE:
                yield Resource(part, item["ResourceType"], item["LogicalResourceId"], item["PhysicalResourceId"])


@dataclass(frozen=True)
class Quota:
    """A quota of a service (its code in Service Quotas: ec2, vpc, fsx). `code` may be empty."""

    service: str
    name: str
    code: str = ""


@dataclass
class Source:
    """A capacity reservation (its id), or a resource group of reservations (its ARN), and the queues that use it."""

    id: str
    queues: list[Queue]

    @property
    def is_group(self) -> bool:
        return self.id.startswith("arn:")

    @property
    def nodes(self) -> int:
        """Most nodes of all its queues together."""
        return sum(compute.max for queue in self.queues for compute in queue.compute)


@dataclass(frozen=True)
class CheckContext:
    """The environment of `file`, checked at the time `now` (with a time zone)."""

    environment: Environment
    file: Path
    aws: Aws
    deployed: tuple[Resource, ...]
    now: datetime
    _quotas: dict[tuple[str, str], list[dict[str, Any]]] = field(default_factory=dict)

    def ids(self, resource_type: str) -> set[str]:
        """Physical ids of the environment's deployed resources of a CloudFormation type."""
        return {resource.physical_id for resource in self.deployed if resource.type == resource_type}

    def quotas(self, service: str, operation: str) -> list[dict[str, Any]]:
        """The quotas of a service that an operation of Service Quotas lists, with values."""
        if (service, operation) not in self._quotas:
            try:
                found = list(self.aws.items("service-quotas", operation, "Quotas", ServiceCode=service))
            except ClientError as error:
                if code_of(error) != "NoSuchResourceException":
                    raise
                found = []
            self._quotas[service, operation] = [item for item in found if "Value" in item]
        return self._quotas[service, operation]

    @cached_property
    def stacks(self) -> Stacks:
        """The environment's synthesized stacks.

        Raises:
            Problem: the environment cannot be synthesized.
        """
        with tempfile.TemporaryDirectory(prefix="trainyard-preflight-") as folder:
            return synthesize(ROOT, self.file, Path(folder))

    @cached_property
    def instances(self) -> tuple[dict[str, Any], ...]:
        """Every instance of the region that uses capacity, as DescribeInstances returns it."""
        states = [{"Name": "instance-state-name", "Values": list(_COUNTED_STATES)}]
        reservations = self.aws.items("ec2", "describe_instances", "Reservations", Filters=states)
        return tuple(instance for reservation in reservations for instance in reservation["Instances"])

    @cached_property
    def file_systems(self) -> tuple[dict[str, Any], ...]:
        """Every FSx file system of the region that exists or is being created."""
        found = self.aws.items("fsx", "describe_file_systems", "FileSystems")
        return tuple(system for system in found if system.get("Lifecycle") not in ("DELETING", "FAILED"))

    @cached_property
    def reservations(self) -> dict[str, dict[str, Any]]:
        """Every capacity reservation of the region that this account owns or that is shared with it, by id."""
        found = self.aws.items("ec2", "describe_capacity_reservations", "CapacityReservations")
        return {record["CapacityReservationId"]: record for record in found}

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """The reservations and groups of reservations that queues name."""
        found: dict[str, Source] = {}
        for queue in self.environment.cluster.queues:
            if name := queue.capacity.reservation or queue.capacity.reservation_group:
                found.setdefault(name, Source(name, [])).queues.append(queue)
        return tuple(found.values())

    def members(self, source: Source) -> list[str]:
        """Ids of the reservations of a source.

        Raises:
            ClientError: there is no such group.
        """
        if not source.is_group:
            return [source.id]
        found = self.aws.items("resource-groups", "list_group_resources", "ResourceIdentifiers", Group=source.id)
        arns = [item["ResourceArn"] for item in found]
        return [arn.rpartition("/")[2] for arn in arns if ":capacity-reservation/" in arn]

    def is_ours(self, instance: dict[str, Any]) -> bool:
        """Whether an instance is a node of the environment's own cluster, or its monitoring host."""
        wanted = {"parallelcluster:cluster-name": self.environment.cluster_name, HOST_TAG: self.environment.name}
        tags = instance.get("Tags", [])
        return any({"Key": key, "Value": value} in tags for key, value in wanted.items())

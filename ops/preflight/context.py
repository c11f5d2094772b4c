"""What every check gets: the environment, the account, and lookups that several checks share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from ops.preflight.aws import Reader
from ops.preflight.deployed import DeployedStacks
from ops.preflight.quotas import Quota, Quotas
from ops.preflight.results import CheckResult
from settings import Environment
from settings.instances import instance_types

CLUSTER_TAG = "parallelcluster:cluster-name"
_TYPES_PER_FILTER = 100
_COUNTED_STATES = ("pending", "running", "stopping", "shutting-down")


@dataclass(frozen=True)
class CheckContext:
    """The environment of `file`, checked at the time `now` (with a time zone)."""

    environment: Environment
    file: Path
    aws: Reader
    deployed: DeployedStacks
    now: datetime
    _vcpus: dict[str, int] = field(default_factory=dict)
    _members: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def quotas(self) -> Quotas:
        """The account's quotas in the region."""
        return Quotas(self.aws)

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
    def reservations(self) -> tuple[dict[str, Any], ...]:
        """Every capacity reservation of the region that this account owns or that is shared with it."""
        return tuple(self.aws.items("ec2", "describe_capacity_reservations", "CapacityReservations"))

    def is_ours(self, instance: dict[str, Any]) -> bool:
        """Whether an instance is a node of the environment's own cluster."""
        wanted = {"Key": CLUSTER_TAG, "Value": self.environment.cluster_name}
        return wanted in instance.get("Tags", [])

    def counted(self, quota: Quota, *, ours: float, others: float, unit: str, asked: str) -> CheckResult:
        """Whether a quota allows what the environment has or adds, `ours`, together with `others` in the account."""
        needs = f"{ours:g} for this environment" + (f", {others:g} of others" if others else "")
        return self.quotas.check(quota, ours + others, unit, needs, asked=asked, region=self.environment.region)

    def members(self, group_arn: str) -> tuple[str, ...]:
        """Ids of the capacity reservations in a resource group.

        Raises:
            ClientError: there is no such group.
        """
        if group_arn not in self._members:
            found = self.aws.items("resource-groups", "list_group_resources", "ResourceIdentifiers", Group=group_arn)
            arns = [item["ResourceArn"] for item in found]
            self._members[group_arn] = tuple(arn.rpartition("/")[2] for arn in arns if ":capacity-reservation/" in arn)
        return self._members[group_arn]

    def vcpus(self, names: Iterable[str]) -> dict[str, int]:
        """Default vCPUs of instance types, which quotas count: from EC2, else from settings/data, else left out."""
        wanted = sorted(set(names) - set(self._vcpus))
        for start in range(0, len(wanted), _TYPES_PER_FILTER):
            chunk = wanted[start : start + _TYPES_PER_FILTER]
            # A filter, because EC2 refuses a call that names a type that the region does not have.
            filters = [{"Name": "instance-type", "Values": chunk}]
            for found in self.aws.items("ec2", "describe_instance_types", "InstanceTypes", Filters=filters):
                self._vcpus[found["InstanceType"]] = int(found["VCpuInfo"]["DefaultVCpus"])
            for name in chunk:
                if name not in self._vcpus and name in instance_types():
                    self._vcpus[name] = instance_types()[name].vcpus
        return self._vcpus

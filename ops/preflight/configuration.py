"""The configuration that a deployment would now send to the ParallelCluster API, and the address of that API."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from ops import intrinsics
from ops.preflight.context import CheckContext
from ops.review.synthesis import ROOT, synthesize
from settings.regions import partition

TYPE = "Custom::ParallelCluster"


class Unresolved(Exception):
    """A value refers to something that is not deployed yet; the message names it."""


class Resolver(intrinsics.Resolver):
    """Resolves values, or raises Unresolved.

    Args:
        exports: values by export name.
        known: physical ids of the stack's own resources by logical id, and pseudo parameters by name.
    """

    def __init__(self, exports: Mapping[str, str], known: Mapping[str, str]) -> None:
        self._exports = exports
        self._known = known

    def reference(self, name: str) -> str:
        if not self._known.get(name):
            raise Unresolved(f"the resource {name}")
        return self._known[name]

    def attribute(self, logical_id: str, name: str) -> NoReturn:
        raise Unresolved(f"Fn::GetAtt of {logical_id}.{name}")

    def imported(self, export: str) -> str:
        if export not in self._exports:
            raise Unresolved(f"the export {export}")
        return self._exports[export]

    def unresolved(self, function: str, argument: Any) -> NoReturn:  # noqa: ANN401 - JSON
        raise Unresolved(f"{function} of {argument}")


@dataclass(frozen=True)
class Wanted:
    """Properties of the cluster's custom resource, with real ids."""

    name: str
    configuration: Mapping[str, Any]
    api_url: str
    api_user_role_arn: str


def wanted(context: CheckContext) -> Wanted:
    """Synthesize the environment and resolve references to what is deployed.

    Raises:
        Unresolved: the configuration refers to something that is not deployed yet.
        Denied: listing CloudFormation's exports is not allowed.
        Problem: the environment cannot be synthesized.
    """
    exports = {item["Name"]: item["Value"] for item in context.aws.items("cloudformation", "list_exports", "Exports")}
    environment = context.environment
    pseudo = {
        "AWS::Region": environment.region,
        "AWS::AccountId": environment.account,
        "AWS::Partition": partition(environment.region),
    }
    resolver = Resolver(exports, {**context.deployed.by_part.get("cluster", {}), **pseudo})
    with tempfile.TemporaryDirectory(prefix="trainyard-preflight-") as folder:
        stacks = synthesize(ROOT, context.file, Path(folder))
    for resource in stacks["cluster"].resources.values():
        properties = resource.get("Properties", {})
        if resource["Type"] == TYPE and properties.get("ClusterName") == environment.cluster_name:
            return Wanted(
                environment.cluster_name,
                resolver.resolve(properties["Configuration"]),
                str(resolver.resolve(properties["ApiUrl"])),
                str(resolver.resolve(properties["ApiUserRoleArn"])),
            )
    raise Unresolved(f"the cluster {environment.cluster_name} in the synthesized templates")

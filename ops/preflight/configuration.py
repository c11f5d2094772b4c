"""The configuration that a deployment would now send to the ParallelCluster API, and one with placeholders."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from ops import intrinsics
from ops.preflight.context import CheckContext
from ops.review.cluster import TYPE
from settings import Environment
from settings.regions import partition
from trainyard.cluster_config import NodeReferences, References


class Unresolved(Exception):
    """A value refers to something that is not deployed yet; the message names it."""


@dataclass(frozen=True)
class Resolver(intrinsics.Resolver):
    """Resolves values, or raises Unresolved.

    Attributes:
        exports: values by export name.
        known: physical ids of the stack's own resources by logical id, and pseudo parameters by name.
    """

    exports: Mapping[str, str]
    known: Mapping[str, str]

    def reference(self, name: str) -> str:
        if not self.known.get(name):
            raise Unresolved(f"the resource {name}")
        return self.known[name]

    def attribute(self, logical_id: str, name: str) -> NoReturn:
        raise Unresolved(f"Fn::GetAtt of {logical_id}.{name}")

    def imported(self, export: str) -> str:
        if export not in self.exports:
            raise Unresolved(f"the export {export}")
        return self.exports[export]

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
    known = {item.logical_id: item.physical_id for item in context.deployed if item.part == "cluster"}
    known |= {"AWS::Region": environment.region, "AWS::AccountId": environment.account}
    known |= {"AWS::Partition": partition(environment.region)}
    resolver = Resolver(exports, known)
    for resource in context.stacks["cluster"].resources.values():
        properties = resource.get("Properties", {})
        if resource["Type"] == TYPE and properties.get("ClusterName") == environment.cluster_name:
            values = (resolver.resolve(properties[key]) for key in ("Configuration", "ApiUrl", "ApiUserRoleArn"))
            return Wanted(environment.cluster_name, *values)
    raise Unresolved(f"the cluster {environment.cluster_name} in the synthesized templates")


def placeholders(environment: Environment) -> References:
    """References to everything that the configuration names, with valid ids of resources that do not exist."""
    login, storage = environment.cluster.login_nodes, environment.storage
    volumes = storage.openzfs.volumes if storage.openzfs else ()
    policy = f"arn:aws:iam::{environment.account}:policy/parallelcluster/{environment.name}"
    subnets = {
        "head": environment.cluster.head_node.subnet,
        "compute": "private",
        "login": login.subnet if login else "private",
    }
    nodes = {
        kind: NodeReferences(_id("subnet", subnet), _id("sg", kind), f"{policy}-{kind}")
        for kind, subnet in subnets.items()
    }
    return References(
        head=nodes["head"],
        compute=nodes["compute"],
        login=nodes["login"],
        lustre_ids={lustre.name: _id("fs", lustre.name) for lustre in storage.lustre},
        openzfs_volume_ids={volume.name: _id("fsvol", volume.name) for volume in volumes},
        data_bucket="placeholder-data",
        checkpoints_bucket="placeholder-checkpoints",
        assets_bucket="placeholder-assets",
        entry_script="s3://placeholder-assets/cluster/entry/entry.sh",
    )


def _id(kind: str, name: str) -> str:
    return f"{kind}-{hashlib.sha256(name.encode()).hexdigest()[:17]}"

"""The cluster's configuration as a deployment now would hand it to the ParallelCluster API, and that API."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ops.preflight.question import Question
from ops.preflight.resolve import Resolver, Unresolved
from ops.review.synthesis import ROOT, synthesize

TYPE = "Custom::ParallelCluster"


@dataclass(frozen=True)
class Wanted:
    """What the cluster's custom resource would get: its configuration with real ids, and where its API is."""

    name: str
    configuration: Mapping[str, Any]
    api_url: str
    api_user_role_arn: str


def wanted(question: Question) -> Wanted:
    """Synthesize the environment, and put in what stands.

    Raises:
        Unresolved: something that the configuration names does not stand yet.
        Denied: CloudFormation may not be asked for its exports.
        Problem: the environment cannot be synthesized.
    """
    exports = {item["Name"]: item["Value"] for item in question.aws.items("cloudformation", "list_exports", "Exports")}
    environment = question.environment
    resolver = Resolver(
        exports,
        question.standing.by_part.get("cluster", {}),
        {
            "AWS::Region": environment.region,
            "AWS::AccountId": environment.account,
            "AWS::Partition": _partition(question),
        },
    )
    with tempfile.TemporaryDirectory(prefix="trainyard-preflight-") as folder:
        stacks = synthesize(ROOT, question.file, Path(folder))
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


def _partition(question: Question) -> str:
    region = question.environment.region
    return "aws-us-gov" if region.startswith("us-gov-") else "aws-cn" if region.startswith("cn-") else "aws"

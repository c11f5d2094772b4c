"""A stack with a cluster in it, synthesized from the product's own construct; small, so that a life takes seconds."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2

from trainyard.cluster_resource import ClusterResource
from trainyard.parallelcluster import version
from trainyard.parallelcluster_api import ParallelClusterApi

from .deployment import ACCOUNT, REGION, Base

# Put in place of the cluster's name, so that tests share what is synthesized.
_NAME = "name-of-the-cluster"
_SYNTHESIZED: dict[str, str] = {}


@dataclass(frozen=True)
class StackSpec:
    """What the stack's template says.

    `script` is the head node's OnNodeConfigured; `broken_sibling` a resource behind the cluster that CloudFormation
    cannot make; `retain` the cluster's DeletionPolicy; `updates` what an update may do; `extra` goes over the
    configuration.
    """

    cluster: str
    max_count: int = 2
    assets: str = "1"
    broken_sibling: bool = False
    sibling: bool = False
    retain: bool = False
    timeout_minutes: int = 55
    answer_minutes: int = 55
    updates: tuple[tuple[str, str], ...] = ()
    script: str | None = None
    instance_type: str = "c7i.large"
    strategy: str | None = None
    extra: tuple[tuple[str, Any], ...] = ()

    def but(self, **changes: Any) -> StackSpec:  # noqa: ANN401 - the fields above
        return replace(self, **changes)


def configuration(base: Base, spec: StackSpec) -> dict[str, Any]:
    """The ParallelCluster configuration of the spec."""
    queue = {
        "Name": "cpu",
        "ComputeResources": [
            {"Name": "cpu", "InstanceType": spec.instance_type, "MinCount": 0, "MaxCount": spec.max_count}
        ],
        "Networking": {"SubnetIds": [base.subnet]},
    }
    settings = {"QueueUpdateStrategy": spec.strategy} if spec.strategy else {}
    return {
        "Region": REGION,
        "Image": {"Os": "ubuntu2204"},
        "HeadNode": {
            "InstanceType": "m7i.large",
            "Networking": {"SubnetId": base.subnet},
            **({"CustomActions": {"OnNodeConfigured": {"Script": spec.script}}} if spec.script else {}),
        },
        "Scheduling": {
            "Scheduler": "slurm",
            **({"SlurmSettings": settings} if settings else {}),
            "SlurmQueues": [queue],
        },
        "Monitoring": {"Dashboards": {"CloudWatch": {"Enabled": False}}, "Alarms": {"Enabled": False}},
        **dict(spec.extra),
    }


def template(base: Base, spec: StackSpec) -> dict[str, Any]:
    """The template of the spec."""
    key = f"{base.api_url} {spec.but(cluster=_NAME)}"
    if key not in _SYNTHESIZED:
        _SYNTHESIZED[key] = _synthesized(base, spec.but(cluster=_NAME))
    found: dict[str, Any] = json.loads(_SYNTHESIZED[key].replace(_NAME, spec.cluster))
    return found


def _synthesized(base: Base, spec: StackSpec) -> str:
    app = cdk.App(analytics_reporting=False)
    stack = cdk.Stack(
        app,
        "Stack",
        env=cdk.Environment(account=ACCOUNT, region=REGION),
        synthesizer=cdk.LegacyStackSynthesizer(),
    )
    api = SimpleNamespace(url=base.api_url, user_role_arn=base.api_user_role_arn, version=version())
    cluster = ClusterResource(
        stack,
        "Cluster",
        name=spec.cluster,
        region=REGION,
        configuration=configuration(base, spec),
        api=cast("ParallelClusterApi", api),
        service_token=base.service_token,
        assets_version=spec.assets,
        timeout_minutes=spec.timeout_minutes,
        answer_minutes=spec.answer_minutes,
        updates=dict(spec.updates),
    )
    if spec.retain:
        cluster.resource.apply_removal_policy(cdk.RemovalPolicy.RETAIN)
    if spec.sibling or spec.broken_sibling:
        sibling = ec2.CfnPlacementGroup(stack, "Sibling", strategy="cluster")
        sibling.node.add_dependency(cluster)
        if spec.broken_sibling:
            sibling.add_property_override("NoSuchProperty", "1")
    for name in ("status", "head_node_instance_id", "head_node_private_ip", "stack_arn", "version"):
        cdk.CfnOutput(stack, name.title().replace("_", ""), value=getattr(cluster, name))
    made: dict[str, Any] = app.synth().get_stack_by_name("Stack").template
    # The rule that checks for a bootstrap version is not a part of a cluster's life.
    made.pop("Rules", None)
    made.pop("Parameters", None)
    return json.dumps(made)

"""IAM permissions of each pipeline step, scoped to the environment's resources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import aws_iam as iam

from settings.model import Environment
from settings.regions import partition
from settings.stacks import ENVIRONMENT_TAG, topic_arn
from trainyard.head_node_documents import head_node_only
from trainyard.parallelcluster import user_role_pattern
from trainyard.pipeline.actions import ASSUME, BUCKETS, DIFF, PREFLIGHT, VALIDATION
from trainyard.pipeline.names import Purpose

_BUCKETS = "The buckets of the environment, by the prefix of their names, and those that its file names."


@dataclass(frozen=True)
class Grant:
    """One statement, and the reason for the wildcard in its resource."""

    sid: str
    actions: tuple[str, ...]
    resource: str
    wildcard: str
    conditions: Mapping[str, object] | None = None

    def statement(self) -> iam.PolicyStatement:
        """The grant in a policy."""
        return iam.PolicyStatement(
            sid=self.sid, actions=list(self.actions), resources=[self.resource], conditions=self.conditions
        )

    @property
    def finding(self) -> str:
        """What cdk-nag finds."""
        return f"AwsSolutions-IAM5[Resource::{self.resource}]"


def grants(environment: Environment) -> Mapping[Purpose, tuple[Grant, ...]]:
    """What each purpose may do.

    The role that may call the ParallelCluster API may do everything that the API can, so a condition excludes the APIs
    of other environments. An existing API is named by the environment file, and may have any tags.
    """

    def arn(service: str, resource: str) -> str:
        place = f"{environment.region}:{environment.account}"
        return f"arn:{partition(environment.region)}:{service}:{place}:{resource}"

    name, api = environment.name, environment.cluster.api
    api_user_role = f"arn:{partition(environment.region)}:iam::{environment.account}:role/{user_role_pattern()}"
    own_api = {"StringEquals": {f"iam:ResourceTag/{ENVIRONMENT_TAG}": name}}
    own = ("ssm:GetParameter", "ssm:SendCommand")
    storage = environment.storage
    linked = {link.bucket for lustre in storage.lustre for link in lustre.associations}
    names = sorted(bucket.removeprefix("s3://") for bucket in linked if bucket.startswith("s3://"))
    names += [f"{storage.buckets.name_prefix}-*"] if storage.buckets.name_prefix else []
    buckets = (
        Grant(f"Bucket{number}", (BUCKETS,), f"arn:{partition(environment.region)}:s3:::{bucket}", _BUCKETS)
        for number, bucket in enumerate(names)
    )
    return {
        "preflight": (
            Grant(
                "Reads",
                tuple(action for action in PREFLIGHT if action != BUCKETS),
                "*",
                "Reads of offers, quotas and resources of a region, which take no ARN or ask for all of them.",
            ),
            *buckets,
            Grant(
                "DryRun",
                (ASSUME,),
                api_user_role if api is None else api.user_role_arn,
                "The API's template ends the name of its user role with its stack's id; the condition takes the role "
                "with the environment's tag, which CloudFormation puts on all of its stacks.",
                own_api if api is None else None,
            ),
        ),
        "diff": (
            Grant(
                "Stacks",
                DIFF,
                arn("cloudformation", f"stack/{name}-*/*"),
                "The environment's own stacks; an ARN ends with an id given by CloudFormation.",
            ),
        ),
        "validation": (
            Grant(
                "Reads",
                tuple(action for action in VALIDATION if action not in own),
                "*",
                "Descriptions of instances and results of commands take no ARN.",
            ),
            Grant(
                "Document",
                ("ssm:SendCommand",),
                arn("ssm", f"document/{name}-cluster-*"),
                "CloudFormation ends the document's name with letters of its own.",
            ),
            Grant(
                "HeadNode",
                ("ssm:SendCommand",),
                arn("ec2", "instance/*"),
                "Instances come and go; the condition takes the cluster's head node alone.",
                head_node_only(environment.cluster_name),
            ),
            Grant(
                "Names",
                ("ssm:GetParameter",),
                arn("ssm", f"parameter/trainyard/{name}/validation/*"),
                "Parameters of the environment's own cluster stack.",
            ),
            *((_notify(topic_arn(environment)),) if environment.observability.on else ()),
        ),
    }


def _notify(topic: str) -> Grant:
    return Grant("Notify", ("sns:Publish",), topic, "No wildcard: the topic has a fixed name.")

"""What nodes may do in AWS."""

from __future__ import annotations

from settings.model.environment import Environment
from settings.regions import partition
from trainyard.cluster_config.references import References
from trainyard.cluster_config.section import Section


def cluster_iam(environment: Environment) -> Section:
    """The top-level Iam: the boundary on every role that ParallelCluster makes, if there is one."""
    boundary = environment.cluster.permissions_boundary
    return {"Iam": {"PermissionsBoundary": boundary}} if boundary else {}


def head_node_iam(environment: Environment, references: References) -> Section:
    """Session Manager, the head node's policies, and reading the buckets."""
    return {
        **_policies(_session_manager(environment.region), *references.head_policy_arns),
        "S3Access": _read_access(references),
    }


def compute_iam(references: References) -> Section:
    """The compute nodes' policies, and reading the buckets. No Session Manager: users come from the head node."""
    return {**_policies(*references.compute_policy_arns), "S3Access": _read_access(references)}


def login_node_iam(environment: Environment, references: References) -> Section:
    """Session Manager and the login nodes' policies; ParallelCluster has no S3Access there."""
    return _policies(_session_manager(environment.region), *references.login_policy_arns)


def _policies(*arns: str) -> Section:
    return {"AdditionalIamPolicies": [{"Policy": arn} for arn in dict.fromkeys(arns)]} if arns else {}


def _read_access(references: References) -> list[Section]:
    # Read only: EnableWriteAccess would give `s3:*`. One entry a bucket: ParallelCluster compares the entries of an
    # update by BucketName alone, so a second one for the same bucket would show as a change each time.
    return [
        {"BucketName": references.assets_bucket, "KeyName": "cluster/*"},
        {"BucketName": references.data_bucket},
        {"BucketName": references.checkpoints_bucket},
    ]


def _session_manager(region: str) -> str:
    return f"arn:{partition(region)}:iam::aws:policy/AmazonSSMManagedInstanceCore"

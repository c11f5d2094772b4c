"""Inputs of a cluster configuration that the environment file cannot know: ids, ARNs and names of resources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Section = dict[str, object]
"""A part of the configuration: keys with strings, integers, booleans, sections, and lists of these."""


@dataclass(frozen=True)
class NodeReferences:
    """Of head, compute or login nodes.

    Attributes:
        subnet_id: for compute nodes, a subnet that assigns no public addresses.
        security_group_id: a group in addition to the one that ParallelCluster creates.
        policy_arn: a managed policy. Head and login nodes also get AmazonSSMManagedInstanceCore.
    """

    subnet_id: str
    security_group_id: str
    policy_arn: str


@dataclass(frozen=True)
class DatabaseReferences:
    """Of the database that the environment makes.

    Attributes:
        uri: host:port.
        password_secret_arn: of a secret whose text is the password of `user`.
    """

    uri: str
    user: str
    password_secret_arn: str


@dataclass(frozen=True, kw_only=True)
class References:
    """Ids, ARNs and names, each a plain string or a CDK token of a string.

    Attributes:
        login: used only where the environment has login nodes.
        data_bucket, checkpoints_bucket: names of buckets that nodes read. Write access to either comes with the nodes'
            policies: ParallelCluster's own S3Access would give `s3:*`.
        assets_bucket: name of the bucket of the cluster's assets; nodes read `cluster/` of it.
        entry_script: s3:// URI of the script of every custom action. It must stay the same for the cluster's life.
        lustre_ids: FSx for Lustre file system ids, by the name in the environment file.
        openzfs_volume_ids: FSx for OpenZFS volume ids, by the volume's name in the environment file.
        database: the environment's own accounting database; None: there is none, or it is not deployed yet.
    """

    head: NodeReferences
    compute: NodeReferences
    login: NodeReferences
    data_bucket: str
    checkpoints_bucket: str
    assets_bucket: str
    entry_script: str
    lustre_ids: Mapping[str, str] = field(default_factory=dict)
    openzfs_volume_ids: Mapping[str, str] = field(default_factory=dict)
    database: DatabaseReferences | None = None

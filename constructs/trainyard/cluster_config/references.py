"""Inputs of a cluster configuration that the environment file cannot know: ids, ARNs and names of resources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

EntryScript = Literal["head-configured", "compute-start", "compute-configured", "login-configured", "updated"]
"""When a script of the cluster's assets runs: see `nodes.custom_actions`."""

Section = dict[str, object]
"""A part of the configuration: keys with strings, integers, booleans, sections, and lists of these."""


@dataclass(frozen=True, kw_only=True)
class References:
    """Ids, ARNs and names, each a plain string or a CDK token of a string.

    Attributes:
        head_subnet_id: subnet of the head node.
        compute_subnet_id: subnet of all compute nodes; it must not assign public addresses.
        login_subnet_id: subnet of the login nodes; used only where the environment has login nodes.
        head_security_group_ids: groups of the head node, in addition to the one that ParallelCluster creates.
        compute_security_group_ids: the same for compute nodes.
        login_security_group_ids: the same for login nodes and their load balancer.
        lustre_ids: FSx for Lustre file system ids, by the name in the environment file.
        openzfs_volume_ids: FSx for OpenZFS volume ids, by the volume's name in the environment file.
        head_policy_arns: managed policies of the head node. AmazonSSMManagedInstanceCore is added to them.
        compute_policy_arns: managed policies of the compute nodes.
        login_policy_arns: managed policies of the login nodes. AmazonSSMManagedInstanceCore is added to them.
        data_bucket: name of the data bucket; nodes read all of it.
        checkpoints_bucket: name of the checkpoint bucket; nodes read all of it. Write access to either comes with the
            policies above: ParallelCluster's own S3Access would give `s3:*`.
        assets_bucket: name of the bucket of the cluster's assets; nodes read `cluster/` of it.
        entry_scripts: s3:// URIs of the scripts. They must stay the same for the cluster's life.
    """

    head_subnet_id: str
    compute_subnet_id: str
    login_subnet_id: str
    head_security_group_ids: tuple[str, ...]
    compute_security_group_ids: tuple[str, ...]
    login_security_group_ids: tuple[str, ...]
    data_bucket: str
    checkpoints_bucket: str
    assets_bucket: str
    entry_scripts: Mapping[EntryScript, str]
    lustre_ids: Mapping[str, str] = field(default_factory=dict)
    openzfs_volume_ids: Mapping[str, str] = field(default_factory=dict)
    head_policy_arns: tuple[str, ...] = ()
    compute_policy_arns: tuple[str, ...] = ()
    login_policy_arns: tuple[str, ...] = ()

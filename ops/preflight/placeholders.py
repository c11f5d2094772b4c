"""References for a configuration whose resources are not deployed yet: valid ids of resources that do not exist."""

from __future__ import annotations

import hashlib
from typing import get_args

from settings import Environment
from trainyard.cluster_config import EntryScript, References


def references(environment: Environment) -> References:
    """References to everything that the environment's configuration names."""
    login = environment.cluster.login_nodes
    storage = environment.storage
    volumes = storage.openzfs.volumes if storage.openzfs else ()
    policy = f"arn:aws:iam::{environment.account}:policy/parallelcluster/{environment.name}"
    return References(
        head_subnet_id=_id("subnet", environment.cluster.head_node.subnet),
        compute_subnet_id=_id("subnet", "private"),
        login_subnet_id=_id("subnet", login.subnet if login else "private"),
        head_security_group_ids=(_id("sg", "head"),),
        compute_security_group_ids=(_id("sg", "compute"),),
        login_security_group_ids=(_id("sg", "login"),),
        lustre_ids={lustre.name: _id("fs", lustre.name) for lustre in storage.lustre},
        openzfs_volume_ids={volume.name: _id("fsvol", volume.name) for volume in volumes},
        head_policy_arns=(f"{policy}-head",),
        compute_policy_arns=(f"{policy}-compute",),
        login_policy_arns=(f"{policy}-login",),
        data_bucket="placeholder-data",
        checkpoints_bucket="placeholder-checkpoints",
        assets_bucket="placeholder-assets",
        entry_scripts=dict.fromkeys(get_args(EntryScript), "s3://placeholder-assets/cluster/entry/entry.sh"),
    )


def _id(kind: str, name: str) -> str:
    return f"{kind}-{hashlib.sha256(name.encode()).hexdigest()[:17]}"

"""References with readable ids that the real schema accepts."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import settings
from settings import Environment
from trainyard.cluster_config import EntryScript, References

ENVIRONMENTS = sorted((Path(__file__).parents[2] / "environments").glob("*.yaml"))
ACCOUNT = "123456789012"
ENTRY_SCRIPT = "s3://example-assets/cluster/entry/entry.sh"


def references(environment: Environment) -> References:
    """References for everything in `environment`, with ids made from their names."""
    cluster = environment.cluster
    login = cluster.login_nodes
    volumes = environment.storage.openzfs.volumes if environment.storage.openzfs else ()
    return References(
        head_subnet_id=_id("subnet", cluster.head_node.subnet),
        compute_subnet_id=_id("subnet", "private"),
        login_subnet_id=_id("subnet", login.subnet if login else "private"),
        head_security_group_ids=(_id("sg", "head"),),
        compute_security_group_ids=(_id("sg", "compute"),),
        login_security_group_ids=(_id("sg", "login"),),
        lustre_ids={lustre.name: _id("fs", lustre.name) for lustre in environment.storage.lustre},
        openzfs_volume_ids={volume.name: f"fsvol-{number:017x}" for number, volume in enumerate(volumes)},
        head_policy_arns=(_policy("head"),),
        compute_policy_arns=(_policy("compute"),),
        login_policy_arns=(_policy("login"),),
        data_bucket="example-data",
        checkpoints_bucket="example-checkpoints",
        assets_bucket="example-assets",
        entry_scripts=dict.fromkeys(get_args(EntryScript), ENTRY_SCRIPT),
    )


def environments() -> dict[str, Environment]:
    """The shipped environments by the name of their file."""
    return {path.stem: settings.load(path) for path in ENVIRONMENTS}


def _id(kind: str, name: str) -> str:
    return f"{kind}-{name.replace('-', ''):0<17.17}"


def _policy(role: str) -> str:
    return f"arn:aws:iam::{ACCOUNT}:policy/parallelcluster-{role}"

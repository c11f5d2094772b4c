"""References with readable ids that the real schema accepts."""

from __future__ import annotations

from pathlib import Path

import settings
from settings import Environment
from trainyard.cluster_config import DatabaseReferences, NodeReferences, References

ENVIRONMENTS = sorted((Path(__file__).parents[2] / "environments").glob("*.yaml"))
ACCOUNT = "123456789012"
ENTRY_SCRIPT = "s3://example-assets/cluster/entry/entry.sh"


def references(environment: Environment) -> References:
    """References for everything in `environment`, with ids made from their names."""
    cluster = environment.cluster
    login = cluster.login_nodes
    volumes = environment.storage.openzfs.volumes if environment.storage.openzfs else ()
    return References(
        head=_node("head", cluster.head_node.subnet),
        compute=_node("compute", "private"),
        login=_node("login", login.subnet if login else "private"),
        lustre_ids={lustre.name: _id("fs", lustre.name) for lustre in environment.storage.lustre},
        openzfs_volume_ids={volume.name: f"fsvol-{number:017x}" for number, volume in enumerate(volumes)},
        data_bucket="example-data",
        checkpoints_bucket="example-checkpoints",
        assets_bucket="example-assets",
        entry_script=ENTRY_SCRIPT,
        database=_database() if (cluster.slurm.accounting and cluster.slurm.accounting.own) else None,
    )


def environments() -> dict[str, Environment]:
    """The shipped environments by the name of their file."""
    return {path.stem: settings.load(path) for path in ENVIRONMENTS}


def _id(kind: str, name: str) -> str:
    return f"{kind}-{name.replace('-', ''):0<17.17}"


def _node(kind: str, subnet: str) -> NodeReferences:
    policy = f"arn:aws:iam::{ACCOUNT}:policy/parallelcluster-{kind}"
    return NodeReferences(_id("subnet", subnet), _id("sg", kind), policy)


def _database() -> DatabaseReferences:
    secret = f"arn:aws:secretsmanager:us-east-1:{ACCOUNT}:secret:Password-AbCdEf"
    return DatabaseReferences("db.cluster-abc.us-east-1.rds.amazonaws.com:3306", "slurm", secret)

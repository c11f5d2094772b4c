"""The whole configuration: its parts, shared storage, monitoring and tags."""

from __future__ import annotations

from collections.abc import Mapping

from settings.model.environment import Environment
from settings.stacks import ENVIRONMENT_TAG
from trainyard.cluster_config.nodes import head_node, login_nodes
from trainyard.cluster_config.queues import queue
from trainyard.cluster_config.references import References, Section
from trainyard.cluster_config.slurm import slurm_settings


def render(environment: Environment, references: References) -> Section:
    """The ParallelCluster configuration of `environment`. The same input gives the same output.

    Raises:
        ValueError: `references` lacks the id of a file system or volume of the environment.
    """
    cluster = environment.cluster
    # On every role that ParallelCluster makes.
    boundary = cluster.permissions_boundary
    return {
        "Region": environment.region,
        # The official AMI; the operating system can only change with a new cluster.
        "Image": {"Os": cluster.os},
        "Imds": {"ImdsSupport": "v2.0"},
        "HeadNode": head_node(environment, references),
        **login_nodes(environment, references),
        "Scheduling": {
            "Scheduler": "slurm",
            "ScalingStrategy": cluster.slurm.scaling,
            "SlurmSettings": slurm_settings(cluster.slurm, managed_dns=environment.network.egress != "endpoints-only"),
            "SlurmQueues": [queue(settings, references, environment.region) for settings in cluster.queues],
        },
        **_shared_storage(environment, references),
        "Monitoring": _monitoring(environment),
        **({"Iam": {"PermissionsBoundary": boundary}} if boundary else {}),
        # The custom resource adds a tag with the cluster's owner.
        "Tags": [
            {"Key": key, "Value": value}
            for key, value in sorted({**environment.tags, ENVIRONMENT_TAG: environment.name}.items())
        ],
    }


def _shared_storage(environment: Environment, references: References) -> Section:
    """The SharedStorage: existing file systems by id.

    The id under one Name can never change: a file system that was replaced needs a new name in the environment file.
    """
    storage = environment.storage
    mounts: list[Section] = [
        {
            "Name": lustre.name,
            "MountDir": lustre.mount,
            "StorageType": "FsxLustre",
            "FsxLustreSettings": {"FileSystemId": _id("lustre_ids", references.lustre_ids, lustre.name)},
        }
        for lustre in storage.lustre
    ]
    mounts += [
        {
            "Name": volume.name,
            "MountDir": volume.mount,
            "StorageType": "FsxOpenZfs",
            "FsxOpenZfsSettings": {"VolumeId": _id("openzfs_volume_ids", references.openzfs_volume_ids, volume.name)},
        }
        for volume in (storage.openzfs.volumes if storage.openzfs else ())
    ]
    return {"SharedStorage": mounts} if mounts else {}


def _id(attribute: str, ids: Mapping[str, str], name: str) -> str:
    if name not in ids:
        raise ValueError(f"References.{attribute} has no {name!r}; it has {sorted(ids)}. Add the id of {name!r}.")
    return ids[name]


def _monitoring(environment: Environment) -> Section:
    settings = environment.cluster.monitoring
    return {
        "DetailedMonitoring": settings.detailed,
        "Logs": {
            "CloudWatch": {
                "Enabled": True,
                "RetentionInDays": settings.log_days,
                "DeletionPolicy": "Retain" if environment.retention.logs == "keep" else "Delete",
            }
        },
        "Dashboards": {"CloudWatch": {"Enabled": settings.dashboard}},
        "Alarms": {"Enabled": settings.alarms},
    }

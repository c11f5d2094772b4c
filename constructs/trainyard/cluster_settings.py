"""`cluster/settings.json`: the environment's settings for the steps on the cluster's nodes.

`cluster_assets/settings.schema.json` describes the file, `cluster_assets/README.md` lists its readers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from settings.instances import instance_types
from settings.model import Environment
from settings.model.cluster import Compute, Os, Queue
from settings.model.environment import Validation
from settings.shares import is_shared
from settings.stacks import topic_arn
from trainyard.cluster_people import cluster_people

# The default user of each operating system's ParallelCluster AMI, who owns the cluster's common folders:
# https://docs.aws.amazon.com/parallelcluster/latest/ug/Image-section.html
CLUSTER_USERS: dict[Os, str] = {
    "alinux2023": "ec2-user",
    "ubuntu2204": "ubuntu",
    "ubuntu2404": "ubuntu",
    "rhel8": "ec2-user",
    "rhel9": "ec2-user",
    "rocky8": "rocky",
    "rocky9": "rocky",
}


def cluster_settings(
    environment: Environment,
    *,
    repository_uris: Mapping[str, str],
    data_bucket: str,
    checkpoints_bucket: str,
    assets_bucket: str,
) -> dict[str, object]:
    """The content of `cluster/settings.json`. Pure; bucket names and URIs may be CDK tokens.

    Args:
        repository_uris: the URI of each of the environment's ECR repositories, by the repository's name.
    """
    return {
        "schema": 1,
        "environment": environment.name,
        "region": environment.region,
        "cluster": {
            "name": environment.cluster_name,
            "os": environment.cluster.os,
            "user": CLUSTER_USERS[environment.cluster.os],
        },
        "buckets": {"data": data_bucket, "checkpoints": checkpoints_bucket, "assets": assets_bucket},
        "repositories": [
            {"name": environment.repository_name(repository.name), "uri": repository_uris[repository.name]}
            for repository in environment.images.repositories
        ],
        "mounts": _mounts(environment),
        "bases": {"lustre": _lustre_base(environment), "shared": _shared_base(environment)},
        "folders": _folders(environment),
        "queues": [_queue(queue) for queue in environment.cluster.queues],
        "models": [
            {
                "name": model.name,
                "queue": model.queue,
                "nodes": model.nodes,
                **({"team": model.team} if model.team else {}),
                "folders": model.folders.model_dump(),
            }
            for model in environment.models
        ],
        **_schedule(environment.validation),
        **_monitoring(environment),
        **({"people": True} if cluster_people(environment) else {}),
        **_usage(environment),
    }


def _usage(environment: Environment) -> dict[str, object]:
    """The timers of budgets and idle jobs: with teams, QOS or reservations, whose changes are not updates."""
    idle = any(qos.idle_gpu_minutes for qos in environment.qos)
    return {"usage": {"idle_gpus": idle}} if is_shared(environment) else {}


def _monitoring(environment: Environment) -> dict[str, object]:
    mode = environment.observability.mode
    return {} if mode == "off" else {"monitoring": {"mode": mode, "topic_arn": topic_arn(environment, "jobs")}}


def _schedule(validation: Validation) -> dict[str, object]:
    """When systemd starts the check of idle nodes (systemd.time(7)), and what it does with bad nodes."""
    if validation.schedule == "off":
        return {}
    *days, at = validation.schedule.replace("nightly", "01:00").split()
    return {"validation": {"calendar": " ".join([*days, f"*-*-* {at}:00 UTC"]), "on_failure": validation.on_failure}}


def _queue(queue: Queue) -> dict[str, object]:
    return {
        "name": queue.name,
        "scratch": queue.scratch,
        "health_check": queue.node_health_check,
        "compute": [
            {"name": compute.name, "efa": compute.efa, "instances": _instances(compute)} for compute in queue.compute
        ],
    }


def _instances(compute: Compute) -> list[dict[str, object]]:
    """The hardware of each known instance type, which a node must have; `nvme_gb` is the total of its local disks."""
    known = instance_types()
    return [
        {
            "type": name,
            "gpus": facts.gpus,
            "gpu": facts.gpu,
            "efa_interfaces": facts.efa_interfaces if compute.efa else 0,
            "nvme_gb": facts.nvme_gb,
            "nvswitch": facts.gpus == 8 and _has_nvswitch(name),
        }
        for name in compute.instance_types
        if (facts := known.get(name))
    ]


def _has_nvswitch(instance_type: str) -> bool:
    """For types with eight GPUs. NVSwitch needs NVIDIA's fabric manager.

    https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/
    """
    family = re.match(r"p(\d+)", instance_type)
    return family is not None and int(family[1]) >= 4


def _mounts(environment: Environment) -> list[dict[str, object]]:
    """The mounts; `throughput_mb_s` is what the file system is provisioned for, shared by all volumes of an OpenZFS."""
    storage = environment.storage
    mounts: list[dict[str, object]] = [
        {
            "name": lustre.name,
            "path": lustre.mount,
            "type": "lustre",
            "throughput_mb_s": lustre.throughput_mb_s,
            **({"efa": True} if lustre.efa else {}),
        }
        for lustre in storage.lustre
    ]
    if storage.openzfs:
        rate = storage.openzfs.throughput
        mounts += [
            {"name": volume.name, "path": volume.mount, "type": "openzfs", "throughput_mb_s": rate}
            for volume in storage.openzfs.volumes
        ]
    mounts += [{"name": one.name, "path": one.mount, "type": one.type} for one in storage.existing]
    return mounts


def _lustre_base(environment: Environment) -> str | None:
    return next((mount for _, mount in _lustres(environment)), None)


def _lustres(environment: Environment) -> list[tuple[str, str]]:
    """Name and mount of the Lustre file systems, the environment's own first."""
    storage = environment.storage
    own = [(one.name, one.mount) for one in storage.lustre]
    return own + [(one.name, one.mount) for one in storage.existing if one.type == "lustre"]


def _shared_base(environment: Environment) -> str | None:
    """The mount of scripts and container images: an OpenZFS volume other than /home, else Lustre."""
    openzfs, existing = environment.storage.openzfs, environment.storage.existing
    mounts = [volume.mount for volume in (openzfs.volumes if openzfs else ())]
    mounts += [one.mount for one in existing if one.type == "openzfs"]
    return next((mount for mount in mounts if mount != "/home"), None) or _lustre_base(environment)


# For each common folder, the names of S3-linked folders or file systems that may hold it.
_CALLED = {
    "data": ("data", "datasets"),
    "checkpoints": ("checkpoints",),
    "logs": ("logs",),
    "results": ("results", "outputs"),
}


def _folders(environment: Environment) -> dict[str, str]:
    """The common folders: one linked to S3, else on the file system of that name, else on the first file system."""
    file_systems = environment.storage.lustre
    linked = {
        association.path.lstrip("/"): f"{lustre.mount}{association.path}"
        for lustre in file_systems
        for association in lustre.associations
    }
    mounts = dict(_lustres(environment))
    shared = _shared_base(environment)
    folders = {}
    for folder, names in _CALLED.items():
        mount = next((mounts[name] for name in names if name in mounts), _lustre_base(environment) or shared)
        if path := next((linked[name] for name in names if name in linked), mount and f"{mount}/{folder}"):
            folders[folder] = path
    if shared:
        folders |= {"images": f"{shared}/containers/images", "scripts": f"{shared}/scripts"}
    return folders

"""Head node, login nodes, and what all nodes have in common: scripts, permissions, images, root volumes."""

from __future__ import annotations

from settings.model.cluster import RootVolume
from settings.model.environment import Environment
from settings.regions import partition
from trainyard.cluster_config.references import EntryScript, References, Section

NO_CLIENTS = "127.0.0.1/32"
"""Source of ParallelCluster's own SSH rule, which would allow the whole internet by default. No packet has this source:
the environment's own security groups alone decide who may use SSH."""


def head_node(environment: Environment, references: References) -> Section:
    """The HeadNode. Instance type, subnet, key, IMDS, volume and scripts can only change with a new cluster."""
    settings = environment.cluster.head_node
    ssh: Section = {"AllowedIps": NO_CLIENTS}
    if settings.key_name:
        ssh["KeyName"] = settings.key_name
    return {
        "InstanceType": settings.instance_type,
        **custom_image(settings.ami),
        "Networking": {
            "SubnetId": references.head_subnet_id,
            "AdditionalSecurityGroups": list(references.head_security_group_ids),
        },
        "Ssh": ssh,
        "LocalStorage": {"RootVolume": root_volume(settings.root_volume)},
        "Imds": {"Secured": True},
        **custom_actions(
            references, environment.region, {"OnNodeConfigured": "head-configured", "OnNodeUpdated": "updated"}
        ),
        "Iam": {
            **policies(_session_manager(environment.region), *references.head_policy_arns),
            "S3Access": read_access(references),
        },
    }


def login_nodes(environment: Environment, references: References) -> Section:
    """The LoginNodes with their one pool, if the environment has them. They use the head node's key."""
    settings = environment.cluster.login_nodes
    if settings is None:
        return {}
    pool: Section = {
        "Name": settings.name,
        "InstanceType": settings.instance_type,
        "Count": settings.count,
        "GracetimePeriod": settings.grace_minutes,
        "Networking": {
            "SubnetIds": [references.login_subnet_id],
            "AdditionalSecurityGroups": list(references.login_security_group_ids),
        },
        "Ssh": {"AllowedIps": NO_CLIENTS},
        # A pool must have its script from the first day.
        **custom_actions(references, environment.region, {"OnNodeConfigured": "login-configured"}),
        # ParallelCluster has no S3Access for login nodes.
        "Iam": policies(_session_manager(environment.region), *references.login_policy_arns),
    }
    return {"LoginNodes": {"Pools": [pool]}}


def custom_actions(references: References, region: str, wanted: dict[str, EntryScript]) -> Section:
    """The scripts that ParallelCluster runs on a node, by event.

    The head node's scripts and arguments can never change while the cluster exists, and a queue's only when its nodes
    stop. So URI and arguments hold no version: the script itself looks up the current bundle. The arguments are the
    assets bucket, the role of the run, and the region (cluster_assets/README.md).
    """
    scripts = references.entry_scripts
    actions: Section = {
        event: {"Script": scripts[name], "Args": [references.assets_bucket, name, region]}
        for event, name in wanted.items()
        if name in scripts
    }
    return {"CustomActions": actions} if actions else {}


def policies(*arns: str) -> Section:
    """The managed policies of a node's Iam section."""
    return {"AdditionalIamPolicies": [{"Policy": arn} for arn in dict.fromkeys(arns)]} if arns else {}


def read_access(references: References) -> list[Section]:
    """The S3Access: read only, since EnableWriteAccess would give `s3:*`.

    One entry for each bucket: ParallelCluster compares the entries of an update by BucketName alone, so a second entry
    for the same bucket would show as a change each time.
    """
    return [
        {"BucketName": references.assets_bucket, "KeyName": "cluster/*"},
        {"BucketName": references.data_bucket},
        {"BucketName": references.checkpoints_bucket},
    ]


def custom_image(ami: str | None) -> Section:
    """The Image of a node with its own AMI, built for the same operating system and ParallelCluster version."""
    return {"Image": {"CustomAmi": ami}} if ami else {}


def root_volume(volume: RootVolume) -> Section:
    """An encrypted gp3 root volume: size in GiB, throughput in MB/s."""
    return {
        "VolumeType": "gp3",
        "Size": volume.size_gib,
        "Iops": volume.iops,
        "Throughput": volume.throughput,
        "Encrypted": True,
    }


def _session_manager(region: str) -> str:
    return f"arn:{partition(region)}:iam::aws:policy/AmazonSSMManagedInstanceCore"

"""Head node, login nodes and queues."""

from __future__ import annotations

import math
from collections.abc import Iterable

from settings.instances import instance_types
from settings.model.cluster import Capacity, Compute, Queue, RootVolume
from settings.model.environment import Environment
from settings.regions import partition
from settings.shares import is_shared
from trainyard.cluster_config.references import NodeReferences, References, Section
from trainyard.cluster_config.shares import billing_weights

NO_CLIENTS = "127.0.0.1/32"
"""Source of ParallelCluster's own SSH rule, which would allow the whole internet by default. No packet has this source:
the environment's own security groups alone decide who may use SSH."""

REAL_MEMORY = 0.95
"""The part of an instance's memory that ParallelCluster gives Slurm as RealMemory, if the configuration sets no
SchedulableMemory. Of several types the smallest counts. Source: aws-parallelcluster-cookbook f75d84c,
aws-parallelcluster-slurm/attributes/slurm_attributes.rb and config_utils.py."""

_CAPACITY_TYPES = {
    "on-demand": "ONDEMAND",
    "odcr": "ONDEMAND",
    "spot": "SPOT",
    "capacity-block": "CAPACITY_BLOCK",
}


def head_node(environment: Environment, references: References) -> Section:
    """The HeadNode. Instance type, subnet, key, IMDS, volume and scripts can only change with a new cluster."""
    settings = environment.cluster.head_node
    return {
        "InstanceType": settings.instance_type,
        **_custom_image(settings.ami),
        "Networking": {
            "SubnetId": references.head.subnet_id,
            "AdditionalSecurityGroups": [references.head.security_group_id, *settings.security_groups],
            # Its network interface gets no public address otherwise, whatever the subnet says (ParallelCluster 3.16.1,
            # templates/cluster_stack.py, _add_head_eni).
            **({"ElasticIp": True} if settings.subnet == "public" else {}),
        },
        "Ssh": {"AllowedIps": NO_CLIENTS, **({"KeyName": settings.key_name} if settings.key_name else {})},
        "LocalStorage": {"RootVolume": _root_volume(settings.root_volume)},
        "Imds": {"Secured": True},
        **_custom_actions(environment, references, OnNodeConfigured="head-configured", OnNodeUpdated="updated"),
        "Iam": {
            **_session_manager(environment, references.head, settings.policies),
            "S3Access": _read_access(references),
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
            "SubnetIds": [references.login.subnet_id],
            "AdditionalSecurityGroups": [references.login.security_group_id, *settings.security_groups],
        },
        "Ssh": {"AllowedIps": NO_CLIENTS},
        # A pool must have its script from the first day.
        **_custom_actions(environment, references, OnNodeConfigured="login-configured"),
        # ParallelCluster has no S3Access for login nodes.
        "Iam": _session_manager(environment, references.login, settings.policies),
    }
    return {"LoginNodes": {"Pools": [pool]}}


def queue(environment: Environment, references: References, settings: Queue) -> Section:
    """One of the SlurmQueues. Compute nodes have no Session Manager: users come from the head node."""
    return {
        "Name": settings.name,
        "CapacityType": _CAPACITY_TYPES[settings.capacity.type],
        **_reservation(settings.capacity),
        "JobExclusiveAllocation": settings.exclusive,
        **({"CustomSlurmSettings": custom} if (custom := custom_slurm_settings(environment, settings)) else {}),
        **_custom_image(settings.ami),
        "Networking": {
            "SubnetIds": [references.compute.subnet_id],
            "AdditionalSecurityGroups": [references.compute.security_group_id, *settings.security_groups],
            # Always explicit: ParallelCluster requires it with EFA.
            "PlacementGroup": {"Enabled": _placement_group(settings)},
        },
        "ComputeSettings": {
            "LocalStorage": {
                "RootVolume": _root_volume(settings.root_volume),
                "EphemeralVolume": {"MountDir": settings.scratch},
            }
        },
        # Both run at each start of a node.
        **_custom_actions(environment, references, OnNodeStart="compute-start", OnNodeConfigured="compute-configured"),
        "Iam": {**_policies(references.compute.policy_arn, *settings.policies), "S3Access": _read_access(references)},
        "ComputeResources": [_compute_resource(compute, settings) for compute in settings.compute],
    }


def custom_slurm_settings(environment: Environment, queue: Queue) -> dict[str, str]:
    """Parameters of the queue's partition: defaults of jobs, and TRESBillingWeights if the cluster is shared."""
    return defaults_of_jobs(environment, queue) | billing_weights(environment, queue)


def defaults_of_jobs(environment: Environment, queue: Queue) -> dict[str, str]:
    """With memory scheduled and nodes shared, each CPU brings its share of the memory, and each GPU its share of seven
    eighths of the CPUs; the rest is for jobs without GPUs. With shares, DefCpuPerGPU needs no memory scheduling.

    Without them a job that requests no memory gets all of a node's (slurm.conf of Slurm 25.11, DefMemPerCPU). The
    environment file's own defaults win. Nothing if an instance type is unknown.
    """
    slurm, known = environment.cluster.slurm, instance_types()
    own = {name.lower() for name in slurm.settings} & {"defmempercpu", "defmempernode", "jobdefaults"}
    names = [name for compute in queue.compute for name in compute.instance_types]
    if own or queue.exclusive or not all(name in known for name in names):
        return {}
    if not slurm.memory_scheduling and not is_shared(environment):
        return {}
    memory = min(math.floor(known[name].memory_mib * REAL_MEMORY) // known[name].vcpus for name in names)
    cpus = min((known[name].vcpus * 7 // 8 // known[name].gpus for name in names if known[name].gpus), default=0)
    of_memory = {"DefMemPerCPU": str(memory)} if slurm.memory_scheduling else {}
    return of_memory | ({"DefCpuPerGPU": str(cpus)} if cpus else {})


def checks_gpus(settings: Compute, queue: Queue) -> bool:
    """Whether ParallelCluster checks the GPUs of these nodes before each job."""
    if queue.gpu_health_check is not None:
        return queue.gpu_health_check
    known = instance_types()
    return all(name in known and known[name].gpus > 0 for name in settings.instance_types)


def _compute_resource(settings: Compute, queue: Queue) -> Section:
    types = settings.instance_types
    return {
        "Name": settings.name,
        # A capacity block takes InstanceType only, and a single type reads better so.
        **({"InstanceType": types[0]} if len(types) == 1 else {"Instances": [{"InstanceType": t} for t in types]}),
        "MinCount": settings.min,
        "MaxCount": settings.max,
        "Efa": {"Enabled": settings.efa},
        # Not set for the queue, which may hold types with and without GPUs.
        "HealthChecks": {"Gpu": {"Enabled": checks_gpus(settings, queue)}},
    }


def _reservation(capacity: Capacity) -> Section:
    if capacity.reservation:
        return {"CapacityReservationTarget": {"CapacityReservationId": capacity.reservation}}
    if capacity.reservation_group:
        return {"CapacityReservationTarget": {"CapacityReservationResourceGroupArn": capacity.reservation_group}}
    return {}


def _placement_group(settings: Queue) -> bool:
    if settings.placement_group is not None:
        return settings.placement_group
    # Reserved capacity has its place already; a placement group could only make instances fail to start.
    return settings.capacity.type in ("on-demand", "spot") and any(c.efa for c in settings.compute)


def _custom_actions(environment: Environment, references: References, **roles: str) -> Section:
    """The scripts that ParallelCluster runs on a node: the role of the run by event.

    The head node's scripts and arguments can never change while the cluster exists, and a queue's only when its nodes
    stop. So URI and arguments hold no version: the script itself looks up the current bundle. The arguments are the
    assets bucket, the role, and the region (cluster_assets/README.md).
    """
    bucket, region = references.assets_bucket, environment.region
    return {
        "CustomActions": {
            event: {"Script": references.entry_script, "Args": [bucket, role, region]} for event, role in roles.items()
        }
    }


def _policies(*arns: str) -> Section:
    return {"AdditionalIamPolicies": [{"Policy": arn} for arn in dict.fromkeys(arns)]}


def _session_manager(environment: Environment, node: NodeReferences, more: Iterable[str]) -> Section:
    """The policies of a node to which Session Manager opens shells."""
    core = f"arn:{partition(environment.region)}:iam::aws:policy/AmazonSSMManagedInstanceCore"
    return _policies(core, node.policy_arn, *more)


def _read_access(references: References) -> list[Section]:
    """The S3Access: read only, since EnableWriteAccess would give `s3:*`.

    One entry for each bucket: ParallelCluster compares the entries of an update by BucketName alone, so a second entry
    for the same bucket would show as a change each time.
    """
    return [
        {"BucketName": references.assets_bucket, "KeyName": "cluster/*"},
        {"BucketName": references.data_bucket},
        {"BucketName": references.checkpoints_bucket},
    ]


def _custom_image(ami: str | None) -> Section:
    """The Image of a node with its own AMI, built for the same operating system and ParallelCluster version."""
    return {"Image": {"CustomAmi": ami}} if ami else {}


def _root_volume(volume: RootVolume) -> Section:
    return {
        "VolumeType": "gp3",
        "Size": volume.size_gib,
        "Iops": volume.iops,
        "Throughput": volume.throughput,
        "Encrypted": True,
    }

"""The Slurm cluster of an environment, in Trainyard's words; `trainyard.cluster_config` renders it for
ParallelCluster.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from settings.model import patterns
from settings.model.base import ClusterName, MountPath, Part, QueueName

InstanceType = Annotated[str, StringConstraints(pattern=patterns.INSTANCE_TYPE)]
Os = Literal["alinux2023", "ubuntu2204", "ubuntu2404", "rhel8", "rhel9", "rocky8", "rocky9"]


class RootVolume(Part):
    """The gp3 root volume of a node, encrypted."""

    size_gib: int = Field(default=100, ge=45, le=16384, description="GiB.")
    iops: int = Field(default=3000, ge=3000, le=16000, description="Provisioned IOPS.")
    throughput: int = Field(default=125, ge=125, le=1000, description="MB/s.")


class HeadNode(Part):
    """The head node: slurmctld, and where users land."""

    instance_type: InstanceType = Field(default="m7i.2xlarge", description="Instance type; it needs no GPU.")
    subnet: Literal["private", "public"] = Field(
        default="private", description="Private nodes are reached through SSM."
    )
    root_volume: RootVolume = Field(default=RootVolume(), description="Root volume.")
    key_name: str | None = Field(
        default=None, description="EC2 key pair for SSH; none by default, connect through SSM."
    )
    ami: Annotated[str, StringConstraints(pattern=patterns.AMI)] | None = Field(
        default=None, description="An image of your own instead of ParallelCluster's."
    )


class LoginNodes(Part):
    """A pool of login nodes behind a load balancer."""

    name: QueueName = Field(default="login", description="Name of the pool.")
    instance_type: InstanceType = Field(default="m7i.xlarge", description="Instance type.")
    count: int = Field(default=1, ge=0, le=10, description="Login nodes that run.")
    subnet: Literal["private", "public"] = Field(
        default="private", description="Private nodes are reached through SSM."
    )
    grace_minutes: int = Field(default=10, ge=3, le=120, description="Minutes that users get before a node goes away.")


class Capacity(Part):
    """What a queue's instances are taken from."""

    type: Literal["on-demand", "spot", "odcr", "capacity-block"] = Field(
        default="on-demand",
        description="odcr is an on-demand capacity reservation, capacity-block one for machine learning.",
    )
    reservation: Annotated[str, StringConstraints(pattern=patterns.RESERVATION)] | None = Field(
        default=None, description="Id of the on-demand capacity reservation or the capacity block."
    )
    reservation_group: Annotated[str, StringConstraints(pattern=patterns.RESERVATION_GROUP)] | None = Field(
        default=None, description="ARN of a resource group of reservations, instead of one reservation."
    )


class Compute(Part):
    """One compute resource of a queue: instances of one or more types that count as the same."""

    name: QueueName = Field(description="Name, part of the names of its nodes.")
    instance_types: tuple[InstanceType, ...] = Field(
        min_length=1, description="Instance types that count as the same node."
    )
    min: int = Field(default=0, ge=0, description="Nodes that always run.")
    max: int = Field(gt=0, description="Most nodes that may run.")
    efa: bool = Field(default=False, description="Elastic Fabric Adapter on every interface that has it.")


class Queue(Part):
    """One Slurm partition."""

    name: QueueName = Field(description="Name of the partition.")
    compute: tuple[Compute, ...] = Field(min_length=1, description="Compute resources.")
    capacity: Capacity = Field(default=Capacity(), description="What the instances are taken from.")
    placement_group: bool | None = Field(
        default=None,
        description="Left out: on where EFA is used on on-demand or spot capacity, off otherwise.",
    )
    exclusive: bool = Field(default=False, description="A job gets whole nodes.")
    scratch: MountPath = Field(
        default="/scratch", description="Where the local NVMe disks of types that have them are mounted as one."
    )
    gpu_health_check: bool | None = Field(default=None, description="Left out: on for instances with GPUs.")
    root_volume: RootVolume = Field(default=RootVolume(), description="Root volume of the nodes.")
    ami: Annotated[str, StringConstraints(pattern=patterns.AMI)] | None = Field(
        default=None, description="An image of your own instead of ParallelCluster's."
    )


class Accounting(Part):
    """Slurm accounting in a database that exists already."""

    uri: str = Field(description="host or host:port of a MySQL-compatible server.")
    user: str = Field(description="User of the database.")
    password_secret_arn: Annotated[str, StringConstraints(pattern=patterns.SECRET_ARN)] = Field(
        description="ARN of the secret with its password."
    )
    database: str | None = Field(default=None, description="Name of the database; left out, the cluster's.")


class Slurm(Part):
    """Settings of the scheduler."""

    scaledown_minutes: int = Field(default=10, ge=1, le=10080, description="Idle minutes until a node is given back.")
    memory_scheduling: bool = Field(
        default=False, description="Schedule by memory too, so that small jobs share a node."
    )
    queue_update: Literal["DRAIN", "COMPUTE_FLEET_STOP", "TERMINATE"] = Field(
        default="DRAIN", description="What an update may do to running nodes."
    )
    scaling: Literal["all-or-nothing", "best-effort", "greedy-all-or-nothing"] = Field(
        default="all-or-nothing", description="What happens when not all nodes of a job can be had."
    )
    settings: dict[str, str | int] = Field(
        default_factory=dict, description="slurm.conf parameters, beside ParallelCluster's own."
    )
    accounting: Accounting | None = Field(default=None, description="Accounting in a database; left out, none.")


class Monitoring(Part):
    """Logs, metrics and dashboard of the cluster."""

    detailed: bool = Field(default=False, description="EC2 metrics each minute instead of every five.")
    log_days: Literal[1, 3, 5, 7, 14, 30, 60, 90, 180, 365] = Field(default=14, description="Days that logs are kept.")
    dashboard: bool = Field(default=True, description="CloudWatch dashboard.")
    alarms: bool = Field(default=True, description="CloudWatch alarms of the head node.")


class Api(Part):
    """A ParallelCluster API that stands already, instead of one of the environment's own. Of the pinned
    version.
    """

    url: Annotated[str, StringConstraints(pattern=patterns.API_URL)] = Field(description="Invoke URL with its stage.")
    user_role_arn: Annotated[str, StringConstraints(pattern=patterns.ROLE)] = Field(
        description="Role that may call it."
    )


class Updates(Part):
    """What an update may do to a running cluster where nothing else brings it about. Anything else fails, and says
    why.
    """

    stop_fleet: Literal["never", "when-needed"] = Field(
        default="never", description="Stop the compute fleet for the update and start it again."
    )
    replace: Literal["never", "when-needed"] = Field(
        default="never",
        description="Delete the cluster and create it anew under its name; file systems are not part of it.",
    )
    running_jobs: Literal["protect", "may-be-killed"] = Field(
        default="protect", description="protect: an update that would end jobs fails while any run."
    )


class Cluster(Part):
    """The Slurm cluster."""

    name: ClusterName | None = Field(default=None, description="Left out: the environment's name.")
    predecessor: ClusterName | None = Field(
        default=None,
        description="The cluster's former name: that cluster stays as it is beside the new one, on the same file"
        " systems, until this is taken out.",
    )
    os: Os = Field(default="ubuntu2204", description="Operating system of all nodes.")
    head_node: HeadNode = Field(default=HeadNode(), description="The head node.")
    login_nodes: LoginNodes | None = Field(
        default=None, description="Login nodes; left out, users work on the head node."
    )
    queues: tuple[Queue, ...] = Field(min_length=1, max_length=50, description="Slurm partitions.")
    slurm: Slurm = Field(default=Slurm(), description="Settings of the scheduler.")
    monitoring: Monitoring = Field(default=Monitoring(), description="Logs, metrics and dashboard.")
    api: Api | None = Field(
        default=None, description="A ParallelCluster API that stands already; left out, the environment gets its own."
    )
    timeout_minutes: int = Field(
        default=55, ge=10, le=720, description="Most minutes that a create, update or delete may take."
    )
    answer_minutes: int = Field(
        default=55,
        ge=1,
        le=55,
        description="Minutes after which CloudFormation is told that the work goes on; a further resource then waits.",
    )
    updates: Updates = Field(default=Updates(), description="What an update may do to the cluster that runs.")
    permissions_boundary: Annotated[str, StringConstraints(pattern=patterns.POLICY)] | None = Field(
        default=None, description="ARN of a policy that bounds every role of the cluster."
    )

"""The Slurm cluster of an environment, in Trainyard's words; `trainyard.cluster_config` renders it for ParallelCluster."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from settings.model.base import ClusterName, MountPath, Part, QueueName

InstanceType = Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+\.[a-z0-9-]+$")]
Os = Literal["alinux2023", "ubuntu2204", "ubuntu2404", "rhel8", "rhel9", "rocky8", "rocky9"]


class RootVolume(Part):
    """The gp3 root volume of a node, encrypted."""

    size_gib: int = Field(default=100, ge=40, le=16384)
    iops: int = Field(default=3000, ge=3000, le=16000)
    throughput: int = Field(default=125, ge=125, le=1000, description="MB/s.")


class HeadNode(Part):
    """The head node: slurmctld, and where users land."""

    instance_type: InstanceType = "m7i.2xlarge"
    subnet: Literal["private", "public"] = "private"
    root_volume: RootVolume = RootVolume()
    key_name: str | None = Field(
        default=None, description="EC2 key pair for SSH; none by default, connect through SSM."
    )
    ami: Annotated[str, StringConstraints(pattern=r"^ami-[0-9a-f]{8,17}$")] | None = None


class LoginNodes(Part):
    """A pool of login nodes behind a load balancer."""

    name: QueueName = "login"
    instance_type: InstanceType = "m7i.xlarge"
    count: int = Field(default=1, ge=0, le=10)
    subnet: Literal["private", "public"] = "private"
    grace_minutes: int = Field(default=10, ge=3, le=120, description="Minutes that users get before a node goes away.")


class Capacity(Part):
    """What a queue's instances are taken from."""

    type: Literal["on-demand", "spot", "odcr", "capacity-block"] = "on-demand"
    reservation: Annotated[str, StringConstraints(pattern=r"^cr-[0-9a-f]{8,17}$")] | None = Field(
        default=None, description="Id of the on-demand capacity reservation or the capacity block."
    )
    reservation_group: (
        Annotated[str, StringConstraints(pattern=r"^arn:aws[a-z-]*:resource-groups:.+:group/.+$")] | None
    ) = Field(default=None, description="ARN of a resource group of reservations, instead of one reservation.")


class Compute(Part):
    """One compute resource of a queue: instances of one or more types that count as the same."""

    name: QueueName
    instance_types: tuple[InstanceType, ...] = Field(min_length=1)
    min: int = Field(default=0, ge=0, description="Nodes that always run.")
    max: int = Field(gt=0, description="Most nodes that may run.")
    efa: bool = False


class Queue(Part):
    """One Slurm partition."""

    name: QueueName
    compute: tuple[Compute, ...] = Field(min_length=1)
    capacity: Capacity = Capacity()
    placement_group: bool | None = Field(
        default=None,
        description="Left out: on where EFA is used on on-demand or spot capacity, off otherwise.",
    )
    exclusive: bool = Field(default=False, description="A job gets whole nodes.")
    scratch: MountPath | None = Field(
        default="/scratch", description="Where local NVMe is mounted; null leaves it out."
    )
    gpu_health_check: bool | None = Field(default=None, description="Left out: on for instances with GPUs.")
    root_volume: RootVolume = RootVolume()
    ami: Annotated[str, StringConstraints(pattern=r"^ami-[0-9a-f]{8,17}$")] | None = None


class Accounting(Part):
    """Slurm accounting in a database that exists already."""

    uri: str = Field(description="host or host:port of a MySQL-compatible server.")
    user: str
    password_secret_arn: Annotated[str, StringConstraints(pattern=r"^arn:aws[a-z-]*:secretsmanager:.+$")]
    database: str | None = None


class Slurm(Part):
    """Settings of the scheduler."""

    scaledown_minutes: int = Field(default=10, ge=1, le=10080, description="Idle minutes until a node is given back.")
    memory_scheduling: bool = Field(
        default=False, description="Schedule by memory too, so that small jobs share a node."
    )
    queue_update: Literal["DRAIN", "COMPUTE_FLEET_STOP", "TERMINATE"] = Field(
        default="DRAIN", description="What an update may do to running nodes."
    )
    scaling: Literal["all-or-nothing", "best-effort", "greedy-all-or-nothing"] = "all-or-nothing"
    settings: dict[str, str | int] = Field(
        default_factory=dict, description="slurm.conf parameters, beside ParallelCluster's own."
    )
    accounting: Accounting | None = None


class Monitoring(Part):
    """Logs, metrics and dashboard of the cluster."""

    detailed: bool = Field(default=False, description="EC2 metrics each minute instead of every five.")
    log_days: Literal[1, 3, 5, 7, 14, 30, 60, 90, 180, 365] = 14
    dashboard: bool = True
    alarms: bool = True


class Api(Part):
    """A ParallelCluster API that stands already, instead of one of the environment's own. Of the pinned version."""

    url: Annotated[str, StringConstraints(pattern=r"^https://[^/]+(/[^/]+)+$")]
    user_role_arn: Annotated[str, StringConstraints(pattern=r"^arn:aws[a-z-]*:iam::\d{12}:role/.+$")]


class Cluster(Part):
    """The Slurm cluster."""

    name: ClusterName | None = Field(default=None, description="Left out: the environment's name.")
    os: Os = "ubuntu2204"
    head_node: HeadNode = HeadNode()
    login_nodes: LoginNodes | None = None
    queues: tuple[Queue, ...] = Field(min_length=1, max_length=50)
    slurm: Slurm = Slurm()
    monitoring: Monitoring = Monitoring()
    api: Api | None = None
    timeout_minutes: int = Field(default=55, ge=10, le=55, description="Most that a create, update or delete may take.")
    permissions_boundary: Annotated[str, StringConstraints(pattern=r"^arn:aws[a-z-]*:iam::.+:policy/.+$")] | None = None

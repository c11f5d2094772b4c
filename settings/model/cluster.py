"""The Slurm cluster of an environment. `trainyard.cluster_config` renders it for ParallelCluster."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, model_validator

from settings.model.base import STEP, ClusterName, LogDays, MountPath, Part, QueueName, arn, path, resource_id, text
from settings.model.network import SubnetId, ZoneId

_IAM, _SHOWN_IAM = "arn:aws[a-z-]*:iam:", "arn:aws:iam::<account>"
_IAM_NAME = "[A-Za-z0-9_+=,.@/-]*[A-Za-z0-9_+=,.@-]"
_KEY_WORD = "[A-Za-z0-9_.:/()#,@+=;-]+"
_KEY_NAME = "a key pair's name: letters, digits, single spaces and _ . : / ( ) # , @ + = ; -"
_DATABASE_USER = "a database user: letters, digits, dots, _ and -, starting with a letter, digit or _"
_API_URL = "the API URL with its stage, for example https://<id>.execute-api.<region>.amazonaws.com/prod"

InstanceType = Annotated[str, text(r"[a-z0-9-]+\.[a-z0-9-]+", "an instance type, for example p5.48xlarge")]
Ami = Annotated[str, resource_id("an image id", "ami")]
Reservation = Annotated[str, resource_id("a capacity reservation id", "cr")]
ReservationGroup = Annotated[str, arn("a resource group", "resource-groups", "group/<name>", "[A-Za-z0-9_.-]+")]
KeyName = Annotated[str, text(f"{_KEY_WORD}( {_KEY_WORD})*", _KEY_NAME, 255)]
DatabaseUser = Annotated[str, text("[A-Za-z0-9_][A-Za-z0-9_.-]*", _DATABASE_USER, 32)]
Database = Annotated[str, text("[0-9a-z_]+", "a database name: lower-case letters, digits and _", 64)]
# All of aurora-mysql8.0, the family of ParallelCluster's own template (parallelcluster/facts/database.json).
AuroraVersion = Annotated[str, text(r"3\.\d{2}\.\d{1,2}", "a version 3 of Aurora MySQL, for example 3.10.4")]
_SNAPSHOT = "a cluster snapshot's identifier: lower-case letters, digits and -, after rds: if it is automatic"
SnapshotId = Annotated[str, text("(rds:)?[a-z][a-z0-9-]*", _SNAPSHOT, 255)]
SecretArn = Annotated[str, arn("a secret", "secretsmanager", "secret:<name>", "[A-Za-z0-9/_+=.@-]+")]
ApiUrl = Annotated[str, text(r"https://[A-Za-z0-9.-]+(:\d{1,5})?(/[A-Za-z0-9._~-]+)+", _API_URL)]
RoleArn = Annotated[str, text(rf"{_IAM}:\d{{12}}:role/{_IAM_NAME}", f"the ARN of a role, {_SHOWN_IAM}:role/<name>")]
# The ParallelCluster API's template takes no path, and no other characters (its parameter PermissionsBoundaryPolicy,
# parallelcluster/facts/api.json).
_BOUNDARY = f"the ARN of one policy without a path, {_SHOWN_IAM}:policy/<name>; a name has letters, digits, _ and -"
BoundaryArn = Annotated[str, text(rf"{_IAM}:(\d{{12}}|aws):policy/[A-Za-z0-9_-]+", _BOUNDARY)]
PolicyArn = Annotated[
    str, text(rf"{_IAM}:(\d{{12}}|aws):policy/{_IAM_NAME}", f"the ARN of one policy, {_SHOWN_IAM}:policy/<name>")
]
# IAM attaches 10 managed policies to a role, EC2 5 groups to an interface; Trainyard and ParallelCluster use 2 of each.
# (IAM and VPC user guides, quotas; both can be raised.)
Policies = Annotated[
    tuple[PolicyArn, ...],
    Field(
        max_length=8,
        description="ARNs of further IAM policies. The ParallelCluster API may attach those of the account whose name"
        " or path begins with parallelcluster, and some of AWS's.",
    ),
]
SecurityGroups = Annotated[
    tuple[Annotated[str, resource_id("a security group id", "sg")], ...],
    Field(max_length=3, description="Ids of further security groups, of the same VPC."),
]
ScriptPath = Annotated[str, path(f"{STEP}(/{STEP})*", "a path below the environment file's folder", "hooks/drivers.sh")]
Sha256 = Annotated[str, text("[0-9a-f]{64}", "64 hexadecimal digits in lower case, as sha256sum prints them")]
Os = Literal["alinux2023", "ubuntu2204", "ubuntu2404", "rhel8", "rhel9", "rocky8", "rocky9"]
Subnet = Literal["private", "public"]

_AMI = "Id of your own image. Default: ParallelCluster's image for `os`."
_SUBNET = "Connect to private nodes through SSM. Public ones get a public address."


class RootVolume(Part):
    """The gp3 root volume of a node, encrypted."""

    size_gib: int = Field(100, ge=45, le=16384, description="Size in GiB.")
    iops: int = Field(3000, ge=3000, le=16000, description="Provisioned IOPS.")
    throughput: int = Field(125, ge=125, le=1000, description="Throughput in MB/s.")


class HeadNode(Part):
    """The head node. It runs slurmctld, and users log in to it."""

    instance_type: InstanceType = Field("m7i.2xlarge", description="Instance type; it needs no GPU.")
    subnet: Subnet = Field("private", description=_SUBNET)
    root_volume: RootVolume = Field(RootVolume(), description="Root volume.")
    key_name: KeyName | None = Field(
        None, description="Name of the EC2 key pair for SSH. Default: none; connect through SSM."
    )
    ami: Ami | None = Field(None, description=_AMI)
    policies: Policies = ()
    security_groups: SecurityGroups = ()


class LoginNodes(Part):
    """A pool of login nodes behind a load balancer."""

    name: QueueName = Field("login", description="Name of the pool.")
    instance_type: InstanceType = Field("m7i.xlarge", description="Instance type.")
    count: int = Field(1, ge=0, description="Number of login nodes.")
    subnet: Subnet = Field("private", description=_SUBNET)
    grace_minutes: int = Field(
        10, ge=3, le=120, description="Minutes that users get to log out before a node is terminated."
    )
    policies: Policies = ()
    security_groups: SecurityGroups = ()


class Capacity(Part):
    """The capacity that a queue's instances come from."""

    type: Literal["on-demand", "spot", "odcr", "capacity-block"] = Field(
        "on-demand", description="odcr: an On-Demand Capacity Reservation; capacity-block: a Capacity Block for ML."
    )
    reservation: Reservation | None = Field(
        None, description="Id of the On-Demand Capacity Reservation or the Capacity Block."
    )
    reservation_group: ReservationGroup | None = Field(
        None, description="ARN of a resource group of reservations, instead of one reservation."
    )


class Compute(Part):
    """One compute resource of a queue: instances of one or more interchangeable types."""

    name: QueueName = Field(description="Name; it becomes part of the node names.")
    instance_types: tuple[InstanceType, ...] = Field(
        min_length=1, description="Instance types; Slurm treats nodes of all these types alike."
    )
    min: int = Field(0, ge=0, description="Number of nodes that always run.")
    max: int = Field(gt=0, description="Maximum number of nodes.")
    efa: bool = Field(False, description="Enable Elastic Fabric Adapter on every network card that has it.")


class Queue(Part):
    """One Slurm partition."""

    name: QueueName = Field(description="Name of the partition.")
    compute: tuple[Compute, ...] = Field(min_length=1, description="Compute resources.")
    capacity: Capacity = Field(Capacity(), description="Capacity that the instances come from.")
    placement_group: bool | None = Field(
        None,
        description="Launch the nodes in a placement group. Default: on for queues with EFA on on-demand or spot"
        " capacity, off otherwise.",
    )
    exclusive: bool = Field(False, description="Give each job whole nodes.")
    scratch: MountPath = Field(
        "/scratch", description="Mount point of the local NVMe disks, on instance types that have them."
    )
    gpu_health_check: bool | None = Field(
        None, description="ParallelCluster's GPU check with DCGM before each job. Default: on for instances with GPUs."
    )
    node_health_check: bool = Field(
        True,
        description="Trainyard's check of GPUs, EFA, disks and mounts, at boot and periodically, which takes unhealthy"
        " nodes out of service. false: nodes only log what is wrong.",
    )
    root_volume: RootVolume = Field(RootVolume(), description="Root volume of the nodes.")
    ami: Ami | None = Field(None, description=_AMI)
    policies: Policies = ()
    security_groups: SecurityGroups = ()


class Accounting(Part):
    """Slurm accounting (docs/accounting.md): in the environment's own database, or with `uri` in an existing one.

    `true` is the short form of the own database with all defaults; `false` removes it.
    """

    uri: str | None = Field(
        None, description="Address of an existing MySQL-compatible server, host or host:port. Default: a new database."
    )
    user: DatabaseUser | None = Field(None, description="User of the existing database.")
    password_secret_arn: SecretArn | None = Field(
        None, description="ARN of the Secrets Manager secret whose text is that user's password."
    )
    database: Database | None = Field(
        None, description="Name of the database. Default: ParallelCluster derives it from the cluster's name."
    )
    zone: ZoneId | None = Field(
        None,
        description="Zone id of the own database's second subnet, which Aurora requires. Default: another zone of the"
        " region.",
    )
    subnet_id: SubnetId | None = Field(
        None, description="That second subnet, private and in another zone, in an existing network."
    )
    version: AuroraVersion = Field("3.10.4", description="Version of Aurora MySQL; 3.10 has long-term support.")
    max_acu: int = Field(
        4, ge=1, le=256, description="Highest capacity in Aurora capacity units of 2 GiB; the lowest is 0.5."
    )
    backup_days: int = Field(14, ge=1, le=35, description="Days for which any point in time can be restored.")
    snapshot: SnapshotId | None = Field(
        None,
        description="Cluster snapshot of such a database from which a new one is created. Before it changes, see"
        " docs/accounting.md, Restore.",
    )
    removed: bool = Field(
        False, description="No accounting; a database that the environment made is deleted after a final snapshot."
    )

    @model_validator(mode="before")
    @classmethod
    def _short(cls, given: Any) -> Any:  # noqa: ANN401 - whatever the file has
        return {"removed": not given} if isinstance(given, bool) else given

    def __bool__(self) -> bool:
        """Whether jobs are accounted for."""
        return not self.removed

    @property
    def own(self) -> bool:
        """Whether the environment makes the database."""
        return self.uri is None and not self.removed


def with_switch(schema: dict[str, Any]) -> None:
    """Adds the short form to the JSON schema of a field that holds an Accounting or nothing."""
    schema["anyOf"].append({"type": "boolean"})


class Slurm(Part):
    """Scheduler settings."""

    scaledown_minutes: int = Field(10, ge=1, le=10080, description="Idle minutes after which a node is terminated.")
    memory_scheduling: bool = Field(
        False,
        description="Schedule memory as well as CPUs, so that small jobs can share a node. A job that requests none"
        " gets the share of its CPUs, and each GPU brings its share of seven eighths of the CPUs.",
    )
    queue_update: Literal["DRAIN", "COMPUTE_FLEET_STOP", "TERMINATE"] = Field(
        "DRAIN", description="How an update replaces running nodes (ParallelCluster's QueueUpdateStrategy)."
    )
    scaling: Literal["all-or-nothing", "best-effort", "greedy-all-or-nothing"] = Field(
        "all-or-nothing",
        description="What to do if only some nodes of a job can be launched (ParallelCluster's ScalingStrategy).",
    )
    settings: dict[str, str | int] = Field(
        default_factory=dict, description="slurm.conf parameters, in addition to ParallelCluster's own."
    )
    accounting: Accounting | None = Field(
        None,
        json_schema_extra=with_switch,
        description="Accounting in a database: `true` for one of the environment's own, `false` to remove that one, or"
        " a mapping. Default: none.",
    )

    @property
    def database(self) -> Accounting | None:
        """The database that exists already, or None: no accounting, or the environment's own database."""
        return self.accounting if self.accounting and self.accounting.uri is not None else None


class Monitoring(Part):
    """Logs, metrics and dashboard of the cluster."""

    detailed: bool = Field(False, description="EC2 metrics every minute instead of every five minutes.")
    log_days: LogDays = Field(14, description="Days that logs are kept.")
    dashboard: bool = Field(True, description="CloudWatch dashboard.")
    alarms: bool = Field(True, description="CloudWatch alarms for the head node.")


class Api(Part):
    """An existing ParallelCluster API of the pinned version, instead of one of the environment's own."""

    url: ApiUrl = Field(description="Invoke URL with its stage.")
    user_role_arn: RoleArn = Field(description="ARN of the role that may call it.")


class Updates(Part):
    """What an update may do to a running cluster if the change needs it. Otherwise the update fails and says why."""

    stop_fleet: Literal["never", "when-needed"] = Field(
        "never", description="Stop the compute fleet for the update and start it again."
    )
    replace: Literal["never", "when-needed"] = Field(
        "never", description="Delete the cluster and create it again under its name. File systems are not affected."
    )
    running_jobs: Literal["protect", "may-be-killed"] = Field(
        "protect", description="protect: an update that would end jobs fails while any job runs."
    )


class Hook(Part):
    """A script of your own that nodes run as root before or after the steps of a bootstrap role (docs/bootstrap.md)."""

    role: Literal["head-configured", "login-configured", "compute-start", "compute-configured"] = Field(
        description="The bootstrap's role. compute-start: before ParallelCluster sets a node up; the others: after it."
    )
    when: Literal["before", "after"] = Field(description="Before the first or after the last step of the role.")
    script: ScriptPath = Field(description="The script, relative to the environment file's folder; it begins with #!.")
    sha256: Sha256 = Field(description="SHA-256 of the script. A changed script is refused until this key changes too.")
    _content: bytes | None = PrivateAttr(None)

    @property
    def content(self) -> bytes | None:
        """The script as `read` found it, or None where it found no file."""
        return self._content

    def read(self, folder: Path) -> None:
        """Read the script below `folder`."""
        file = folder / self.script
        with suppress(OSError):
            self._content = file.read_bytes() if file.is_file() else None  # a pipe would wait for a writer


class Cluster(Part):
    """The Slurm cluster."""

    name: ClusterName | None = Field(None, description="Name of the cluster. Default: the environment's name.")
    predecessor: ClusterName | None = Field(
        None,
        description="Former name of the cluster. The cluster of that name keeps running next to the new one, on the"
        " same file systems, until this key is removed.",
    )
    os: Os = Field("ubuntu2204", description="Operating system of all nodes.")
    head_node: HeadNode = Field(HeadNode(), description="The head node.")
    login_nodes: LoginNodes | None = Field(None, description="Login nodes. Default: none; users work on the head node.")
    queues: tuple[Queue, ...] = Field(min_length=1, max_length=50, description="Slurm partitions.")
    slurm: Slurm = Field(Slurm(), description="Scheduler settings.")
    monitoring: Monitoring = Field(Monitoring(), description="Logs, metrics and dashboard.")
    api: Api | None = Field(
        None, description="An existing ParallelCluster API. Default: the environment deploys its own."
    )
    generation: int = Field(
        0,
        ge=0,
        le=9999,
        description="Raise it by one to create a cluster again that was deleted outside CloudFormation, or to undo what"
        " was changed there.",
    )
    timeout_minutes: int = Field(55, ge=10, le=720, description="Maximum minutes for a create, update or delete.")
    answer_minutes: int = Field(
        55,
        ge=1,
        le=55,
        description="Minutes after which the handler answers CloudFormation while the work continues; another"
        " resource then waits for the end of the work.",
    )
    hooks: tuple[Hook, ...] = Field((), description="Scripts of your own on the nodes, in the order in which they run.")
    updates: Updates = Field(Updates(), description="What an update may do to the running cluster.")
    permissions_boundary: BoundaryArn | None = Field(
        None,
        description="ARN of the policy that is the permissions boundary of every role of the environment: those of its"
        " stacks, of the ParallelCluster API, and those that the API creates.",
    )

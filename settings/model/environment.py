"""One environment: everything that one file under `environments/` describes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from settings.model.base import Account, MountPath, Name, Part, PrefixName, Region, Schedule, Tag
from settings.model.cluster import Cluster
from settings.model.cost import Cost
from settings.model.images import Images
from settings.model.network import Network
from settings.model.observability import Observability, with_short_form
from settings.model.people import People
from settings.model.storage import Storage
from settings.model.teams import Qos, SlurmReservation, Team


class Retention(Part):
    """What remains after `cdk destroy`. Everything that holds data is kept unless the file says otherwise."""

    buckets: Literal["keep", "delete-if-empty", "delete-with-data"] = Field(
        "keep", description="The data, checkpoint and asset buckets."
    )
    file_systems: Literal["keep", "delete"] = Field("keep", description="FSx for Lustre and FSx for OpenZFS.")
    databases: Literal["keep", "delete"] = Field(
        "keep", description="The accounting database. keep: protected; a final snapshot of it is taken."
    )
    images: Literal["keep", "delete"] = Field("keep", description="ECR repositories with their images.")
    logs: Literal["keep", "delete"] = Field("keep", description="Log groups, and the data of Prometheus.")


class ModelFolders(Part):
    """Folders of a project. The head node's bootstrap creates them, owned by the cluster's user, mode 775."""

    data: MountPath = Field(description="Data set; several projects may share one.")
    checkpoints: MountPath = Field(description="Checkpoints.")
    outputs: MountPath = Field(description="Final models and other results.")
    logs: MountPath = Field(description="Training logs.")
    tensorboard: MountPath = Field(description="TensorBoard event files.")


class Model(Part):
    """One training project: its share of the nodes and its folders."""

    name: Name = Field(description="Name of the project.")
    queue: str = Field(description="Name of the queue that its jobs use.")
    nodes: int = Field(gt=0, description="Number of nodes that a production job of this project uses.")
    team: Name | None = Field(None, description="Team whose Slurm account pays for its jobs. Default: none.")
    folders: ModelFolders = Field(description="Folders of the project, each below the mount of a shared file system.")


Check = Literal["head-scan", "scan", "hello-gpu", "gpu-check", "gpu-burn", "pairs", "nccl", "storage", "s3"]


class Validation(Part):
    """Settings of the validation that runs on the cluster after a deployment (docs/validation.md)."""

    image: Tag | None = Field(
        None,
        description="Name of an imported image that has nccl-tests or PyTorch, IOR and mdtest. "
        "Default: the programs that are installed on the nodes.",
    )
    schedule: Schedule = Field(
        "off",
        description="When nodes that are idle and up are checked, in UTC: off, nightly (01:00), or a time, with or "
        "without days, for example Sat,Sun 22:00. No node is started for it.",
    )
    on_failure: Literal["report", "drain"] = Field(
        "report", description="What the schedule does with bad nodes; drain: Slurm sends them no jobs."
    )
    required: tuple[Check, ...] = Field(
        (), description="Checks that must run: they fail, instead of being skipped, if they cannot run."
    )


class Environment(Part):
    """A deployment of Trainyard."""

    name: PrefixName = Field(description="Prefix of the stack names, and default name of the cluster.")
    account: Account = Field(description="AWS account id, in quotes.")
    region: Region = Field(description="AWS region, for example us-east-1.")
    tags: dict[str, str] = Field(default_factory=dict, description="Tags of every resource; at most 38.")
    production: bool = Field(
        False,
        description="A production environment. It must have a permissions boundary (cluster.permissions_boundary).",
    )
    retention: Retention = Field(Retention(), description="What remains after `cdk destroy`.")
    network: Network = Field(description="VPC, subnets and who may connect.")
    storage: Storage = Field(Storage(), description="Buckets and file systems.")
    images: Images = Field(Images(), description="Container images.")
    cluster: Cluster = Field(description="The Slurm cluster.")
    parallelcluster: dict[str, object] = Field(
        default_factory=dict,
        description="Keys of a ParallelCluster configuration that this file has no key for. They are merged last:"
        " mappings by key, lists of items with a Name by Name; other lists replace.",
    )
    people: People = Field(People(), description="Who works on the cluster. Default: the cluster's user alone.")
    teams: tuple[Team, ...] = Field((), description="Teams that share the cluster.")
    qos: tuple[Qos, ...] = Field((), description="Qualities of service of jobs.")
    reservations: tuple[SlurmReservation, ...] = Field((), description="Nodes that are kept for teams for a time.")
    models: tuple[Model, ...] = Field((), description="The training projects that share the cluster.")
    cost: Cost = Field(Cost(), description="Prices and budget.")
    validation: Validation = Field(Validation(), description="The validation of a deployed cluster.")
    observability: Observability = Field(
        Observability(),
        json_schema_extra=with_short_form,
        description="Metrics, dashboards, alerts and notifications: a mapping, or the mode alone.",
    )

    def repository_name(self, name: str) -> str:
        """Name of a repository in ECR."""
        prefix = self.name if self.images.prefix is None else self.images.prefix
        return f"{prefix}/{name}" if prefix else name

    @property
    def cluster_name(self) -> str:
        """Name of the cluster in ParallelCluster."""
        return self.cluster.name or self.name

"""One environment: the whole of what one file under `environments/` says."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from settings.model import patterns
from settings.model.base import Name, Part
from settings.model.cluster import Cluster
from settings.model.images import Images
from settings.model.models import Model
from settings.model.network import Network
from settings.model.storage import Storage
from settings.model.validation import Validation


class Retention(Part):
    """What a destroy keeps. Everything that holds data is kept unless the file says otherwise."""

    buckets: Literal["keep", "delete-if-empty", "delete-with-data"] = Field(
        default="keep", description="The data, checkpoint and asset buckets."
    )
    file_systems: Literal["keep", "delete"] = Field(default="keep", description="FSx for Lustre and FSx for OpenZFS.")
    images: Literal["keep", "delete"] = Field(default="keep", description="ECR repositories with their images.")
    logs: Literal["keep", "delete"] = Field(default="keep", description="Log groups.")


class Environment(Part):
    """A deployment of Trainyard."""

    name: Annotated[Name, StringConstraints(max_length=25)] = Field(
        description="Prefix of the stacks, and the cluster's name unless it has its own."
    )
    account: Annotated[str, StringConstraints(pattern=patterns.ACCOUNT)] = Field(
        description="AWS account id, in quotes."
    )
    region: Annotated[str, StringConstraints(pattern=patterns.REGION)] = Field(
        description="AWS region, for example us-east-1."
    )
    tags: dict[str, str] = Field(default_factory=dict, description="Tags on every resource; at most 40.")
    retention: Retention = Field(default=Retention(), description="What a destroy keeps.")
    network: Network = Field(description="VPC, subnets and who may come in.")
    storage: Storage = Field(default=Storage(), description="Buckets and file systems.")
    images: Images = Field(default=Images(), description="Container images.")
    cluster: Cluster = Field(description="The Slurm cluster.")
    models: tuple[Model, ...] = Field(default=(), description="The training projects that share the cluster.")
    validation: Validation = Field(default=Validation(), description="What is asked of the cluster after a deployment.")

    @property
    def cluster_name(self) -> str:
        """Name of the cluster in ParallelCluster."""
        return self.cluster.name or self.name

"""One environment: the whole of what one file under `environments/` says."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from settings.model.base import Name, Part
from settings.model.cluster import Cluster
from settings.model.images import Images
from settings.model.models import Model
from settings.model.network import Network
from settings.model.storage import Storage


class Retention(Part):
    """What a destroy keeps. Everything that holds data is kept unless the file says otherwise."""

    buckets: Literal["keep", "delete-if-empty", "delete-with-data"] = "keep"
    file_systems: Literal["keep", "delete"] = "keep"
    images: Literal["keep", "delete"] = "keep"
    logs: Literal["keep", "delete"] = "keep"


class Environment(Part):
    """A deployment of Trainyard."""

    name: Annotated[Name, StringConstraints(max_length=25)] = Field(
        description="Prefix of the stacks, and the cluster's name unless it has its own."
    )
    account: Annotated[str, StringConstraints(pattern=r"^\d{12}$")] = Field(description="AWS account id, in quotes.")
    region: Annotated[str, StringConstraints(pattern=r"^[a-z]{2}(-[a-z]+)+-\d$")]
    tags: dict[str, str] = Field(default_factory=dict)
    retention: Retention = Retention()
    network: Network
    storage: Storage = Storage()
    images: Images = Images()
    cluster: Cluster
    models: tuple[Model, ...] = ()

    @property
    def cluster_name(self) -> str:
        """Name of the cluster in ParallelCluster."""
        return self.cluster.name or self.name

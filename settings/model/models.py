"""The named training projects that share the cluster."""

from __future__ import annotations

from pydantic import Field

from settings.model.base import MountPath, Name, Part


class ModelFolders(Part):
    """Where a project keeps its things; made by the head node's bootstrap, owned by the cluster's user,
    mode 775.
    """

    data: MountPath = Field(description="Data set; projects may share one.")
    checkpoints: MountPath = Field(description="Checkpoints.")
    outputs: MountPath = Field(description="Final models and other results.")
    logs: MountPath = Field(description="Training logs.")
    tensorboard: MountPath = Field(description="TensorBoard event files.")


class Model(Part):
    """One training project: its share of the fleet and its folders."""

    name: Name = Field(description="Name of the project.")
    queue: str = Field(description="The queue that its jobs go to.")
    nodes: int = Field(gt=0, description="Nodes that a production job of this project takes.")
    folders: ModelFolders = Field(description="Where the project keeps its things, each on a shared file system.")

"""File systems that every node mounts. All stand already: ParallelCluster gets ids and nothing else."""

from __future__ import annotations

from collections.abc import Mapping

from settings.model.environment import Environment
from trainyard.cluster_config.references import References
from trainyard.cluster_config.section import Section


def shared_storage(environment: Environment, references: References) -> Section:
    """The SharedStorage, if there is any.

    Under one Name an id can never change: a file system that was replaced needs a new name in the environment file.

    Raises:
        ValueError: `references` lacks the id of a file system or volume of the environment.
    """
    storage = environment.storage
    mounts: list[Section] = [
        {
            "Name": lustre.name,
            "MountDir": lustre.mount,
            "StorageType": "FsxLustre",
            "FsxLustreSettings": {"FileSystemId": _id("lustre_ids", references.lustre_ids, lustre.name)},
        }
        for lustre in storage.lustre
    ]
    mounts += [
        {
            "Name": volume.name,
            "MountDir": volume.mount,
            "StorageType": "FsxOpenZfs",
            "FsxOpenZfsSettings": {"VolumeId": _id("openzfs_volume_ids", references.openzfs_volume_ids, volume.name)},
        }
        for volume in (storage.openzfs.volumes if storage.openzfs else ())
    ]
    return {"SharedStorage": mounts} if mounts else {}


def _id(attribute: str, ids: Mapping[str, str], name: str) -> str:
    if name not in ids:
        raise ValueError(f"References.{attribute} has no {name!r}; it has {sorted(ids)}. Add the id of {name!r}.")
    return ids[name]

"""Volumes and associations. AWS::FSx::FileSystem has no handler that reads one, so nobody compares it."""

from __future__ import annotations

from typing import Any

from local.emulator.fsx import store

Properties = dict[str, Any]

_NOT_READ = ("Options", "OriginSnapshot")


def _volume(physical_id: str, properties: Properties) -> Properties | None:
    record = store.VOLUMES.get(physical_id)
    if record is None:
        return None
    wanted = properties.get("OpenZFSConfiguration", {})
    settings = {key: record["OpenZFSConfiguration"].get(key) for key in wanted if key not in _NOT_READ}
    # Options say how to delete, and are nowhere to be read.
    settings |= {key: wanted[key] for key in _NOT_READ if key in wanted}
    return {"Name": record["Name"], "OpenZFSConfiguration": settings, "Tags": record["Tags"]}


def _association(physical_id: str, _properties: Properties) -> Properties | None:
    record = store.ASSOCIATIONS.get(physical_id)
    if record is None:
        return None
    keys = ("DataRepositoryPath", "FileSystemId", "FileSystemPath", "ImportedFileChunkSize", "S3", "Tags")
    return {key: record[key] for key in keys}


READERS = {
    "AWS::FSx::Volume": (_volume, ("Name", "OpenZFSConfiguration", "Tags")),
    "AWS::FSx::DataRepositoryAssociation": (
        _association,
        ("DataRepositoryPath", "FileSystemId", "FileSystemPath", "ImportedFileChunkSize", "S3", "Tags"),
    ),
}

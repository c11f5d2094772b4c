"""The FSx API's records of one region of an account: file systems, associations, volumes and snapshots."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

from ministack.core.responses import AccountRegionScopedDict, get_account_id, get_region

from local.emulator.service import ApiError, Request

FILE_SYSTEMS: Any = AccountRegionScopedDict()
ASSOCIATIONS: Any = AccountRegionScopedDict()
VOLUMES: Any = AccountRegionScopedDict()
SNAPSHOTS: Any = AccountRegionScopedDict()
_RECORDS = {
    "FileSystemId": (FILE_SYSTEMS, "FileSystemNotFound"),
    "AssociationId": (ASSOCIATIONS, "DataRepositoryAssociationNotFound"),
    "VolumeId": (VOLUMES, "VolumeNotFound"),
    "SnapshotId": (SNAPSHOTS, "SnapshotNotFound"),
}


def get(key: str, identifier: str) -> Request:
    """The record with an id; `key` is FileSystemId, AssociationId, VolumeId or SnapshotId.

    Raises:
        ApiError: it does not exist.
    """
    records, code = _RECORDS[key]
    found: Request | None = records.get(identifier)
    if found is None:
        raise ApiError(code, f"{key.removesuffix('Id')} '{identifier}' does not exist.")
    return found


def tagged(resource_arn: str) -> Request:
    """The record that an ARN names; raises ApiError where it does not exist."""
    for records, _code in _RECORDS.values():
        for found in records.values():
            if found["ResourceARN"] == resource_arn:
                existing: Request = found
                return existing
    raise ApiError("ResourceNotFound", f"{resource_arn} does not exist.")


def new(id_key: str, prefix: str, kind: str, request: Request, parent: str = "", **members: Any) -> Request:
    """Keep a new record, with the members that every resource has; `kind` and `parent` are parts of its ARN."""
    key = f"{prefix}-{uuid.uuid4().hex[:17]}"
    path = f"{parent}/{key}" if parent else key
    record = {
        "Lifecycle": "AVAILABLE",
        "CreationTime": round(time.time(), 3),
        "ResourceARN": f"arn:aws:fsx:{get_region()}:{get_account_id()}:{kind}/{path}",
        "Tags": request.get("Tags", []),
        id_key: key,
        **members,
    }
    _RECORDS[id_key][0][key] = record
    return record


def update(id_key: str, request: Request, *members: str) -> Request:
    """Update these members of the record that a request names; configurations are merged."""
    record = get(id_key, request[id_key])
    for name in members:
        if name in request:
            merged = {**record[name], **request[name]} if name.endswith("Configuration") else request[name]
            record[name] = merged
    return record


def delete(id_key: str, request: Request) -> Request:
    """Remove the record that a request names; returns the answer of a Delete operation."""
    get(id_key, request[id_key])
    del _RECORDS[id_key][0][request[id_key]]
    return {id_key: request[id_key], "Lifecycle": "DELETING"}


def describe(key: str, answer: str) -> Callable[[Request], Request]:
    """A Describe operation: by ids, by the filters file-system-id and volume-id, or all."""

    def operation(request: Request) -> Request:
        ids = request.get(f"{key}s")
        found = [get(key, one) for one in ids] if ids else list(_RECORDS[key][0].values())
        for entry in request.get("Filters", []):
            field = {"file-system-id": "FileSystemId", "volume-id": "VolumeId"}.get(entry["Name"])
            if field is None:
                raise ApiError("BadRequest", f"The filter {entry['Name']} is not emulated here.")
            found = [record for record in found if record.get(field) in entry["Values"]]
        return {answer: found}

    return operation

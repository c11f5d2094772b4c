"""The CloudFormation types of FSx: each calls the operation that CloudFormation would call."""

from __future__ import annotations

from typing import Any

from local.emulator.cloudformation.provide import Made, Properties, provide
from local.emulator.fsx import store
from local.emulator.fsx.service import model, perform

_UPDATABLE = {
    "LustreConfiguration": "UpdateFileSystemLustreConfiguration",
    "OpenZFSConfiguration": "UpdateFileSystemOpenZFSConfiguration",
}


def install() -> None:
    """Add the types."""
    provide("AWS::FSx::FileSystem", _create_file_system, _delete_file_system, _update_file_system)
    provide("AWS::FSx::DataRepositoryAssociation", _create_association, _delete_association, _update_association)
    provide("AWS::FSx::Volume", _create_volume, _delete_volume, _update_volume)
    provide("AWS::FSx::Snapshot", _create_snapshot, _delete_snapshot)


def typed(value: Any, shape: Any) -> Any:
    """CloudFormation's scalars ("1200", "true") in the types of the API's model; what the model lacks is left out."""
    if shape.type_name == "structure" and isinstance(value, dict):
        return {key: typed(entry, shape.members[key]) for key, entry in value.items() if key in shape.members}
    if shape.type_name == "list" and isinstance(value, list):
        return [typed(entry, shape.member) for entry in value]
    if shape.type_name in {"integer", "long"} and isinstance(value, str):
        return int(value)
    if shape.type_name == "boolean" and isinstance(value, str):
        return value.lower() == "true"
    return value


def _members(shape_name: str) -> frozenset[str]:
    """The settings that an Update operation takes."""
    shape: Any = model().shape_for(shape_name)
    return frozenset(shape.members)


def _do(operation: str, request: Properties) -> Properties:
    return perform(operation, typed(request, model().operation_model(operation).input_shape))


def _file_system_attributes(record: Properties) -> Properties:
    lustre, openzfs = record.get("LustreConfiguration", {}), record.get("OpenZFSConfiguration", {})
    return {
        "Id": record["FileSystemId"],
        "DNSName": record["DNSName"],
        "ResourceARN": record["ResourceARN"],
        "LustreMountName": lustre.get("MountName", ""),
        "RootVolumeId": openzfs.get("RootVolumeId", ""),
    }


def _create_file_system(_logical_id: str, properties: Properties, _stack: str) -> Made:
    record = _do("CreateFileSystem", properties)["FileSystem"]
    return record["FileSystemId"], _file_system_attributes(record)


def _update_file_system(physical_id: str, old: Properties, new: Properties) -> Properties:
    request: Properties = {"FileSystemId": physical_id}
    if old.get("StorageCapacity") != new.get("StorageCapacity"):
        request["StorageCapacity"] = new["StorageCapacity"]
    for kind, shape_name in _UPDATABLE.items():
        allowed = _members(shape_name)
        changed = {
            key: value
            for key, value in new.get(kind, {}).items()
            if key in allowed and old.get(kind, {}).get(key) != value
        }
        if changed:
            request[kind] = changed
    record = _do("UpdateFileSystem", request)["FileSystem"] if len(request) > 1 else store.file_system(physical_id)
    record["Tags"] = [{"Key": str(t["Key"]), "Value": str(t["Value"])} for t in new.get("Tags", [])]
    return _file_system_attributes(record)


def _delete_file_system(physical_id: str, properties: Properties) -> None:
    if physical_id in store.FILE_SYSTEMS:
        options = properties.get("OpenZFSConfiguration", {}).get("Options", [])
        request = {"OpenZFSConfiguration": {"Options": options}} if options else {}
        _do("DeleteFileSystem", {"FileSystemId": physical_id, **request})


def _create_association(_logical_id: str, properties: Properties, _stack: str) -> Made:
    record = _do("CreateDataRepositoryAssociation", properties)["Association"]
    return record["AssociationId"], {"AssociationId": record["AssociationId"], "ResourceARN": record["ResourceARN"]}


def _update_association(physical_id: str, _old: Properties, new: Properties) -> Properties:
    _do(
        "UpdateDataRepositoryAssociation",
        {"AssociationId": physical_id, **{k: new[k] for k in ("S3", "ImportedFileChunkSize") if k in new}},
    )
    return {}


def _delete_association(physical_id: str, _properties: Properties) -> None:
    if physical_id in store.ASSOCIATIONS:
        _do("DeleteDataRepositoryAssociation", {"AssociationId": physical_id})


def _create_volume(_logical_id: str, properties: Properties, _stack: str) -> Made:
    record = _do("CreateVolume", properties)["Volume"]
    return record["VolumeId"], {"VolumeId": record["VolumeId"], "ResourceARN": record["ResourceARN"]}


def _update_volume(physical_id: str, _old: Properties, new: Properties) -> Properties:
    allowed = _members("UpdateOpenZFSVolumeConfiguration")
    settings = {key: value for key, value in new.get("OpenZFSConfiguration", {}).items() if key in allowed}
    record = _do("UpdateVolume", {"VolumeId": physical_id, "Name": new["Name"], "OpenZFSConfiguration": settings})[
        "Volume"
    ]
    return {"VolumeId": physical_id, "ResourceARN": record["ResourceARN"]}


def _delete_volume(physical_id: str, properties: Properties) -> None:
    if physical_id in store.VOLUMES:
        options = properties.get("OpenZFSConfiguration", {}).get("Options", [])
        request = {"OpenZFSConfiguration": {"Options": options}} if options else {}
        _do("DeleteVolume", {"VolumeId": physical_id, **request})


def _create_snapshot(_logical_id: str, properties: Properties, _stack: str) -> Made:
    record = _do("CreateSnapshot", properties)["Snapshot"]
    return record["SnapshotId"], {"Id": record["SnapshotId"], "ResourceARN": record["ResourceARN"]}


def _delete_snapshot(physical_id: str, _properties: Properties) -> None:
    if physical_id in store.SNAPSHOTS:
        _do("DeleteSnapshot", {"SnapshotId": physical_id})

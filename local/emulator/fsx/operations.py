"""The operations of the FSx API, each a function from request to answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ministack.core.responses import get_account_id, get_region
from ministack.services import ec2

from local.emulator.fsx import lustre, openzfs, store
from local.emulator.fsx.store import FsxError
from local.emulator.wire import call

Request = dict[str, Any]


def create_file_system(request: Request) -> Request:
    """CreateFileSystem: Lustre and OpenZFS; available at once."""
    kind = request["FileSystemType"]
    first = store.subnet(request["SubnetIds"][0])
    groups = store.groups(request.get("SecurityGroupIds", []), first["VpcId"])
    capacity = request.get("StorageCapacity")
    key = store.new_id("fs")
    record: dict[str, Any] = {
        "FileSystemId": key,
        "OwnerId": get_account_id(),
        "CreationTime": store.now(),
        "FileSystemType": kind,
        "Lifecycle": "AVAILABLE",
        "StorageCapacity": capacity,
        "StorageType": request.get("StorageType", "SSD"),
        "VpcId": first["VpcId"],
        "SubnetIds": request["SubnetIds"],
        "ResourceARN": store.arn("file-system", key),
        "DNSName": f"{key}.fsx.{get_region()}.amazonaws.com",
        "Tags": request.get("Tags", []),
        "KmsKeyId": request.get("KmsKeyId") or f"arn:aws:kms:{get_region()}:{get_account_id()}:key/aws-fsx",
    }
    if kind == "LUSTRE":
        version = request.get("FileSystemTypeVersion", "2.15")
        settings = request.get("LustreConfiguration", {})
        lustre.check(capacity, settings, groups, version)
        record["FileSystemTypeVersion"] = version
        record["LustreConfiguration"] = {
            "DeploymentType": "SCRATCH_1",
            "CopyTagsToBackups": False,
            "DataCompressionType": "NONE",
            "WeeklyMaintenanceStartTime": "1:05:00",
            **settings,
            "MountName": key[3:11],
        }
    elif kind == "OPENZFS":
        settings = dict(request.get("OpenZFSConfiguration", {}))
        openzfs.check(capacity, settings, len(request["SubnetIds"]))
        root = openzfs.volume(key, "fsx", "/fsx", settings.pop("RootVolumeConfiguration", {}), [])
        record["OpenZFSConfiguration"] = {
            "WeeklyMaintenanceStartTime": "1:05:00",
            **settings,
            "RootVolumeId": root["VolumeId"],
        }
    else:
        raise FsxError("UnsupportedOperation", f"FileSystemType {kind} is not emulated here: LUSTRE or OPENZFS.")
    # Lustre takes an interface for each server; two are enough to be looked at.
    record["NetworkInterfaceIds"] = [
        _interface(record, request["SubnetIds"][index % len(request["SubnetIds"])], groups)
        for index in range(2 if kind == "LUSTRE" else 1)
    ]
    store.FILE_SYSTEMS[key] = record
    return {"FileSystem": record}


def _interface(record: Request, subnet_id: str, groups: list[Request]) -> str:
    made = call(
        "CreateNetworkInterface",
        SubnetId=subnet_id,
        Groups=[group["GroupId"] for group in groups],
        Description=f"Created by Amazon FSx for file system {record['FileSystemId']}",
    )
    key: str = made["NetworkInterface"]["NetworkInterfaceId"]
    ec2._network_interfaces[key]["Status"] = "in-use"
    return key


def update_file_system(request: Request) -> Request:
    """UpdateFileSystem: capacity may only grow; the settings given replace those that stand."""
    record = store.file_system(request["FileSystemId"])
    capacity = request.get("StorageCapacity", record["StorageCapacity"])
    if capacity < record["StorageCapacity"]:
        raise FsxError(
            "BadRequest", f"StorageCapacity cannot shrink from {record['StorageCapacity']} to {capacity} GiB."
        )
    kind = "LustreConfiguration" if record["FileSystemType"] == "LUSTRE" else "OpenZFSConfiguration"
    settings = {**record[kind], **request.get(kind, {})}
    if kind == "LustreConfiguration":
        groups = store.groups(
            [g["GroupId"] for g in ec2._network_interfaces[record["NetworkInterfaceIds"][0]]["Groups"]], record["VpcId"]
        )
        lustre.check(capacity, settings, groups, record["FileSystemTypeVersion"])
    else:
        openzfs.check(capacity, settings, len(record["SubnetIds"]))
    record |= {"StorageCapacity": capacity, kind: settings}
    return {"FileSystem": record}


def delete_file_system(request: Request) -> Request:
    """DeleteFileSystem: associations go with it, as do OpenZFS volumes; other volumes than the root must be named."""
    record = store.file_system(request["FileSystemId"])
    key = record["FileSystemId"]
    children = [
        v for v in store.VOLUMES.values() if v["FileSystemId"] == key and "ParentVolumeId" in v["OpenZFSConfiguration"]
    ]
    options = request.get("OpenZFSConfiguration", {}).get("Options", [])
    if children and "DELETE_CHILD_VOLUMES_AND_SNAPSHOTS" not in options:
        raise FsxError("BadRequest", f"File system {key} has volumes: {', '.join(v['VolumeId'] for v in children)}.")
    for records in (store.ASSOCIATIONS, store.VOLUMES):
        for child in [k for k, v in records.items() if v["FileSystemId"] == key]:
            del records[child]
    for interface in record["NetworkInterfaceIds"]:
        ec2._network_interfaces.pop(interface, None)
    del store.FILE_SYSTEMS[key]
    return {"FileSystemId": key, "Lifecycle": "DELETING"}


def create_association(request: Request) -> Request:
    """CreateDataRepositoryAssociation."""
    record = store.file_system(request["FileSystemId"])
    path, repository = request.get("FileSystemPath", "/"), request["DataRepositoryPath"]
    lustre.check_association(record, path, repository)
    key = store.new_id("dra")
    made = {
        "AssociationId": key,
        "ResourceARN": store.arn("association", record["FileSystemId"], key),
        "FileSystemId": record["FileSystemId"],
        "Lifecycle": "AVAILABLE",
        "FileSystemPath": path,
        "DataRepositoryPath": repository,
        "CreationTime": store.now(),
        "Tags": request.get("Tags", []),
        "S3": request.get("S3", {}),
        "BatchImportMetaDataOnCreate": request.get("BatchImportMetaDataOnCreate", False),
        "ImportedFileChunkSize": request.get("ImportedFileChunkSize", 1024),
    }
    store.ASSOCIATIONS[key] = made
    return {"Association": made}


def update_association(request: Request) -> Request:
    """UpdateDataRepositoryAssociation."""
    record = _association(request)
    record |= {key: request[key] for key in ("ImportedFileChunkSize", "S3") if key in request}
    return {"Association": record}


def delete_association(request: Request) -> Request:
    """DeleteDataRepositoryAssociation."""
    key = _association(request)["AssociationId"]
    del store.ASSOCIATIONS[key]
    return {
        "AssociationId": key,
        "Lifecycle": "DELETING",
        "DeleteDataInFileSystem": request.get("DeleteDataInFileSystem", False),
    }


def _association(request: Request) -> Request:
    return store.require(
        store.ASSOCIATIONS, request["AssociationId"], "DataRepositoryAssociationNotFound", "Association"
    )


def create_volume(request: Request) -> Request:
    """CreateVolume, OpenZFS."""
    settings = request.get("OpenZFSConfiguration")
    if not settings:
        raise FsxError("MissingVolumeConfiguration", "OpenZFSConfiguration is required.")
    parent = openzfs.check_volume(settings)
    path = f"{parent['OpenZFSConfiguration']['VolumePath']}/{request['Name']}"
    return {"Volume": openzfs.volume(parent["FileSystemId"], request["Name"], path, settings, request.get("Tags", []))}


def update_volume(request: Request) -> Request:
    """UpdateVolume."""
    record = store.volume(request["VolumeId"])
    settings = {**record["OpenZFSConfiguration"], **request.get("OpenZFSConfiguration", {})}
    if "ParentVolumeId" in settings:
        openzfs.check_volume(settings)
    record |= {"OpenZFSConfiguration": settings, "Name": request.get("Name", record["Name"])}
    return {"Volume": record}


def delete_volume(request: Request) -> Request:
    """DeleteVolume: refused while child volumes or snapshots stand and the options do not include them."""
    record = store.volume(request["VolumeId"])
    key = record["VolumeId"]
    children = [k for k, v in store.VOLUMES.items() if v["OpenZFSConfiguration"].get("ParentVolumeId") == key]
    snapshots = [k for k, v in store.SNAPSHOTS.items() if v["VolumeId"] == key]
    options = request.get("OpenZFSConfiguration", {}).get("Options", [])
    if (children or snapshots) and "DELETE_CHILD_VOLUMES_AND_SNAPSHOTS" not in options:
        raise FsxError("BadRequest", f"Volume {key} has {', '.join(children + snapshots)}.")
    for child in children:
        delete_volume({**request, "VolumeId": child})
    for snapshot in snapshots:
        del store.SNAPSHOTS[snapshot]
    del store.VOLUMES[key]
    return {"VolumeId": key, "Lifecycle": "DELETING"}


def create_snapshot(request: Request) -> Request:
    """CreateSnapshot."""
    record = store.volume(request["VolumeId"])
    key = store.new_id("fsvolsnap")
    made = {
        "SnapshotId": key,
        "ResourceARN": store.arn("snapshot", record["VolumeId"], key),
        "Name": request["Name"],
        "VolumeId": record["VolumeId"],
        "CreationTime": store.now(),
        "Lifecycle": "AVAILABLE",
        "Tags": request.get("Tags", []),
    }
    store.SNAPSHOTS[key] = made
    return {"Snapshot": made}


def delete_snapshot(request: Request) -> Request:
    """DeleteSnapshot."""
    record = store.require(store.SNAPSHOTS, request["SnapshotId"], "SnapshotNotFound", "Snapshot")
    del store.SNAPSHOTS[record["SnapshotId"]]
    return {"SnapshotId": record["SnapshotId"], "Lifecycle": "DELETING"}


def list_tags(request: Request) -> Request:
    """ListTagsForResource."""
    return {"Tags": store.tagged(request["ResourceARN"])["Tags"]}


def tag(request: Request) -> Request:
    """TagResource."""
    record = store.tagged(request["ResourceARN"])
    merged = {t["Key"]: t["Value"] for t in [*record["Tags"], *request["Tags"]]}
    record["Tags"] = [{"Key": key, "Value": value} for key, value in merged.items()]
    return {}


def untag(request: Request) -> Request:
    """UntagResource."""
    record = store.tagged(request["ResourceARN"])
    record["Tags"] = [t for t in record["Tags"] if t["Key"] not in request["TagKeys"]]
    return {}


def describe(records: Any, ids: str, key: str, answer: str, code: str) -> Callable[[Request], Request]:
    """A Describe operation: by ids, by the filters file-system-id and volume-id, or all."""

    def operation(request: Request) -> Request:
        wanted = request.get(ids) or []
        found = [store.require(records, one, code, answer.removesuffix("s")) for one in wanted] or (
            [] if wanted else list(records.values())
        )
        for entry in request.get("Filters", []):
            field = {"file-system-id": "FileSystemId", "volume-id": "VolumeId"}.get(entry["Name"])
            if field is None:
                raise FsxError("BadRequest", f"The filter {entry['Name']} is not emulated here.")
            found = [record for record in found if record.get(field) in entry["Values"]]
        return {answer: found}

    operation.__doc__ = f"Describe {answer} by {key}."
    return operation


OPERATIONS: dict[str, Callable[[Request], Request]] = {
    "CreateFileSystem": create_file_system,
    "UpdateFileSystem": update_file_system,
    "DeleteFileSystem": delete_file_system,
    "DescribeFileSystems": describe(
        store.FILE_SYSTEMS, "FileSystemIds", "FileSystemId", "FileSystems", "FileSystemNotFound"
    ),
    "CreateDataRepositoryAssociation": create_association,
    "UpdateDataRepositoryAssociation": update_association,
    "DeleteDataRepositoryAssociation": delete_association,
    "DescribeDataRepositoryAssociations": describe(
        store.ASSOCIATIONS, "AssociationIds", "AssociationId", "Associations", "DataRepositoryAssociationNotFound"
    ),
    "CreateVolume": create_volume,
    "UpdateVolume": update_volume,
    "DeleteVolume": delete_volume,
    "DescribeVolumes": describe(store.VOLUMES, "VolumeIds", "VolumeId", "Volumes", "VolumeNotFound"),
    "CreateSnapshot": create_snapshot,
    "DeleteSnapshot": delete_snapshot,
    "DescribeSnapshots": describe(store.SNAPSHOTS, "SnapshotIds", "SnapshotId", "Snapshots", "SnapshotNotFound"),
    "DescribeBackups": lambda _request: {"Backups": []},
    "DescribeFileCaches": lambda _request: {"FileCaches": []},
    "DescribeStorageVirtualMachines": lambda _request: {"StorageVirtualMachines": []},
    "ListTagsForResource": list_tags,
    "TagResource": tag,
    "UntagResource": untag,
}

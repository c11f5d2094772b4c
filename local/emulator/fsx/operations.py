"""The operations of the FSx API, each a function from request to answer.

Limits on values are those of botocore's model of the API (service.validate). Checked here is what concerns other
resources: networks, buckets, parents and children. Source: Amazon FSx API reference, 2026-11.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ministack.core.responses import get_account_id, get_region
from ministack.services import ec2, s3

from local.emulator.fsx import store
from local.emulator.service import ApiError, Request
from local.emulator.wire import call

_LNET_PORT = 988
_CHILDREN = "DELETE_CHILD_VOLUMES_AND_SNAPSHOTS"


def create_file_system(request: Request) -> Request:
    """CreateFileSystem: Lustre and OpenZFS; available at once."""
    kind, capacity = request["FileSystemType"], request.get("StorageCapacity")
    subnet = ec2._subnets.get(request["SubnetIds"][0])
    if subnet is None:
        raise ApiError("InvalidNetworkSettings", f"The subnet ID '{request['SubnetIds'][0]}' does not exist")
    if kind not in {"LUSTRE", "OPENZFS"}:
        raise ApiError("UnsupportedOperation", f"FileSystemType {kind} is not emulated here: LUSTRE or OPENZFS.")
    if capacity is None:
        raise ApiError("MissingFileSystemConfiguration", "StorageCapacity is required.")
    groups = store.groups(request.get("SecurityGroupIds", []), subnet["VpcId"])
    key = store.new_id("fs")
    record = store.record(
        "file-system",
        request,
        key,
        FileSystemId=key,
        OwnerId=get_account_id(),
        FileSystemType=kind,
        StorageCapacity=capacity,
        StorageType=request.get("StorageType", "SSD"),
        VpcId=subnet["VpcId"],
        SubnetIds=request["SubnetIds"],
        DNSName=f"{key}.fsx.{get_region()}.amazonaws.com",
        KmsKeyId=request.get("KmsKeyId") or f"arn:aws:kms:{get_region()}:{get_account_id()}:key/aws-fsx",
    )
    if kind == "LUSTRE":
        settings = request.get("LustreConfiguration", {})
        _check_lustre_network(settings, groups)
        record["FileSystemTypeVersion"] = request.get("FileSystemTypeVersion", "2.15")
        record["LustreConfiguration"] = {
            "DeploymentType": "SCRATCH_1",
            "CopyTagsToBackups": False,
            "DataCompressionType": "NONE",
            "WeeklyMaintenanceStartTime": "1:05:00",
            **settings,
            "MountName": key[3:11],
        }
    else:
        settings = dict(request.get("OpenZFSConfiguration", {}))
        root = _volume(key, "fsx", "/fsx", settings.pop("RootVolumeConfiguration", {}), {})
        record["OpenZFSConfiguration"] = {
            "WeeklyMaintenanceStartTime": "1:05:00",
            **settings,
            "RootVolumeId": root["VolumeId"],
        }
    # Lustre has an interface for each server; two are enough here.
    count = 2 if kind == "LUSTRE" else 1
    subnets = [request["SubnetIds"][index % len(request["SubnetIds"])] for index in range(count)]
    record["NetworkInterfaceIds"] = [_interface(key, one, groups) for one in subnets]
    store.FILE_SYSTEMS[key] = record
    return {"FileSystem": record}


def _check_lustre_network(settings: Request, groups: list[Request]) -> None:
    rules = [(group, rule) for group in groups for rule in group["IpPermissions"]]

    def everything(rule: Request) -> bool:
        return str(rule.get("IpProtocol")) == "-1"

    def opens(rule: Request) -> bool:
        return rule.get("IpProtocol") == "tcp" and int(rule["FromPort"]) <= _LNET_PORT <= int(rule["ToPort"])

    if not any(everything(rule) or opens(rule) for _, rule in rules):
        named = ", ".join(group["GroupId"] for group in groups)
        raise ApiError(
            "InvalidNetworkSettings",
            "The file system cannot be created because the default or provided security groups in the specified subnet "
            f"do not permit Lustre LNET network traffic on port {_LNET_PORT} ({named}).",
        )
    if settings.get("EfaEnabled") and not any(
        everything(rule) and any(pair.get("GroupId") == group["GroupId"] for pair in rule["UserIdGroupPairs"])
        for group, rule in rules
    ):
        raise ApiError("InvalidNetworkSettings", "EFA needs a security group that allows all traffic from itself.")


def _interface(file_system_id: str, subnet_id: str, groups: list[Request]) -> str:
    try:
        made = call(
            "CreateNetworkInterface",
            SubnetId=subnet_id,
            Groups=[group["GroupId"] for group in groups],
            Description=f"Created by Amazon FSx for file system {file_system_id}",
        )
    except ApiError as error:
        raise ApiError("InvalidNetworkSettings", str(error)) from error
    key: str = made["NetworkInterface"]["NetworkInterfaceId"]
    ec2._network_interfaces[key]["Status"] = "in-use"
    return key


def update_file_system(request: Request) -> Request:
    """UpdateFileSystem: capacity may only grow; the settings given replace the present ones."""
    record = store.get("FileSystemId", request["FileSystemId"])
    capacity = request.get("StorageCapacity", record["StorageCapacity"])
    if capacity < record["StorageCapacity"]:
        message = f"StorageCapacity cannot shrink from {record['StorageCapacity']} to {capacity} GiB."
        raise ApiError("BadRequest", message)
    kind = "LustreConfiguration" if record["FileSystemType"] == "LUSTRE" else "OpenZFSConfiguration"
    record |= {"StorageCapacity": capacity, kind: {**record[kind], **request.get(kind, {})}}
    return {"FileSystem": record}


def delete_file_system(request: Request) -> Request:
    """DeleteFileSystem: associations and OpenZFS volumes go with it, child volumes only if the options say so."""
    record = store.get("FileSystemId", request["FileSystemId"])
    key = record["FileSystemId"]
    volumes = [volume for volume in store.VOLUMES.values() if volume["FileSystemId"] == key]
    children = [v["VolumeId"] for v in volumes if "ParentVolumeId" in v["OpenZFSConfiguration"]]
    if children and _CHILDREN not in request.get("OpenZFSConfiguration", {}).get("Options", []):
        raise ApiError("BadRequest", f"File system {key} has volumes: {', '.join(children)}.")
    for records in (store.ASSOCIATIONS, store.VOLUMES):
        for child in [k for k, v in records.items() if v["FileSystemId"] == key]:
            del records[child]
    for interface in record["NetworkInterfaceIds"]:
        ec2._network_interfaces.pop(interface, None)
    del store.FILE_SYSTEMS[key]
    return {"FileSystemId": key, "Lifecycle": "DELETING"}


def create_association(request: Request) -> Request:
    """CreateDataRepositoryAssociation."""
    system = store.get("FileSystemId", request["FileSystemId"])
    path, repository = request.get("FileSystemPath", "/"), request["DataRepositoryPath"]
    if "LustreConfiguration" not in system:
        raise ApiError("BadRequest", "Data repository associations need a Lustre file system.")
    bucket = repository.removeprefix("s3://").split("/")[0]
    if bucket not in s3._buckets:
        message = f"DataRepositoryPath {repository}: the bucket '{bucket}' does not exist."
        raise ApiError("InvalidDataRepositoryType", message)
    for other in store.ASSOCIATIONS.values():
        for name, value in (("FileSystemPath", path), ("DataRepositoryPath", repository)):
            if other["FileSystemId"] == system["FileSystemId"] and _overlap(other[name], value):
                raise ApiError("BadRequest", f"{name} {value} overlaps {other[name]} of {other['AssociationId']}.")
    key = store.new_id("dra")
    store.ASSOCIATIONS[key] = store.record(
        "association",
        request,
        f"{system['FileSystemId']}/{key}",
        AssociationId=key,
        FileSystemId=system["FileSystemId"],
        FileSystemPath=path,
        DataRepositoryPath=repository,
        S3=request.get("S3", {}),
        BatchImportMetaDataOnCreate=request.get("BatchImportMetaDataOnCreate", False),
        ImportedFileChunkSize=request.get("ImportedFileChunkSize", 1024),
    )
    return {"Association": store.ASSOCIATIONS[key]}


def _overlap(one: str, other: str) -> bool:
    first, second = (path.rstrip("/") + "/" for path in (one, other))
    return first.startswith(second) or second.startswith(first)


def update_association(request: Request) -> Request:
    """UpdateDataRepositoryAssociation."""
    record = store.get("AssociationId", request["AssociationId"])
    record |= {key: request[key] for key in ("ImportedFileChunkSize", "S3") if key in request}
    return {"Association": record}


def delete_association(request: Request) -> Request:
    """DeleteDataRepositoryAssociation."""
    key = store.get("AssociationId", request["AssociationId"])["AssociationId"]
    del store.ASSOCIATIONS[key]
    return {"AssociationId": key, "Lifecycle": "DELETING"}


def create_volume(request: Request) -> Request:
    """CreateVolume, OpenZFS."""
    settings = request.get("OpenZFSConfiguration")
    if not settings:
        raise ApiError("MissingVolumeConfiguration", "OpenZFSConfiguration is required.")
    parent = store.get("VolumeId", settings["ParentVolumeId"])
    path = f"{parent['OpenZFSConfiguration']['VolumePath']}/{request['Name']}"
    return {"Volume": _volume(parent["FileSystemId"], request["Name"], path, settings, request)}


def _volume(file_system_id: str, name: str, path: str, settings: Request, request: Request) -> Request:
    for other in store.VOLUMES.values():
        if (other["FileSystemId"], other["OpenZFSConfiguration"]["VolumePath"]) == (file_system_id, path):
            raise ApiError("BadRequest", f"Volume {path} exists already on {file_system_id}.")
    key = store.new_id("fsvol")
    record = store.record(
        "volume", request, f"{file_system_id}/{key}", VolumeId=key, FileSystemId=file_system_id, Name=name
    )
    record["VolumeType"] = "OPENZFS"
    record["OpenZFSConfiguration"] = {
        "VolumePath": path,
        "RecordSizeKiB": 128,
        "DataCompressionType": "NONE",
        "CopyTagsToSnapshots": False,
        "ReadOnly": False,
        "StorageCapacityQuotaGiB": -1,
        "StorageCapacityReservationGiB": -1,
        "NfsExports": [{"ClientConfigurations": [{"Clients": "*", "Options": ["rw", "crossmnt"]}]}],
        **settings,
    }
    store.VOLUMES[key] = record
    return record


def update_volume(request: Request) -> Request:
    """UpdateVolume."""
    record = store.get("VolumeId", request["VolumeId"])
    settings = {**record["OpenZFSConfiguration"], **request.get("OpenZFSConfiguration", {})}
    record |= {"OpenZFSConfiguration": settings, "Name": request.get("Name", record["Name"])}
    return {"Volume": record}


def delete_volume(request: Request) -> Request:
    """DeleteVolume: refused while it has child volumes or snapshots that the options do not include."""
    key = store.get("VolumeId", request["VolumeId"])["VolumeId"]
    children = [k for k, v in store.VOLUMES.items() if v["OpenZFSConfiguration"].get("ParentVolumeId") == key]
    snapshots = [k for k, v in store.SNAPSHOTS.items() if v["VolumeId"] == key]
    options = request.get("OpenZFSConfiguration", {}).get("Options", [])
    if (children or snapshots) and _CHILDREN not in options:
        raise ApiError("BadRequest", f"Volume {key} has {', '.join(children + snapshots)}.")
    for child in children:
        delete_volume({**request, "VolumeId": child})
    for snapshot in snapshots:
        del store.SNAPSHOTS[snapshot]
    del store.VOLUMES[key]
    return {"VolumeId": key, "Lifecycle": "DELETING"}


def create_snapshot(request: Request) -> Request:
    """CreateSnapshot."""
    volume, key = store.get("VolumeId", request["VolumeId"])["VolumeId"], store.new_id("fsvolsnap")
    store.SNAPSHOTS[key] = store.record(
        "snapshot", request, f"{volume}/{key}", SnapshotId=key, Name=request["Name"], VolumeId=volume
    )
    return {"Snapshot": store.SNAPSHOTS[key]}


def delete_snapshot(request: Request) -> Request:
    """DeleteSnapshot."""
    key = store.get("SnapshotId", request["SnapshotId"])["SnapshotId"]
    del store.SNAPSHOTS[key]
    return {"SnapshotId": key, "Lifecycle": "DELETING"}


def tag(request: Request) -> Request:
    """TagResource."""
    record = store.tagged(request["ResourceARN"])
    merged = {t["Key"]: t["Value"] for t in [*record["Tags"], *request["Tags"]]}
    record["Tags"] = [{"Key": key, "Value": value} for key, value in merged.items()]
    return {}


def _describe(records: Any, key: str, answer: str) -> Callable[[Request], Request]:
    """A Describe operation: by ids, by the filters file-system-id and volume-id, or all."""

    def operation(request: Request) -> Request:
        ids = request.get(f"{key}s")
        found = [store.get(key, one) for one in ids] if ids else list(records.values())
        for entry in request.get("Filters", []):
            field = {"file-system-id": "FileSystemId", "volume-id": "VolumeId"}.get(entry["Name"])
            if field is None:
                raise ApiError("BadRequest", f"The filter {entry['Name']} is not emulated here.")
            found = [record for record in found if record.get(field) in entry["Values"]]
        return {answer: found}

    return operation


OPERATIONS: dict[str, Callable[[Request], Request]] = {
    "CreateFileSystem": create_file_system,
    "UpdateFileSystem": update_file_system,
    "DeleteFileSystem": delete_file_system,
    "DescribeFileSystems": _describe(store.FILE_SYSTEMS, "FileSystemId", "FileSystems"),
    "CreateDataRepositoryAssociation": create_association,
    "UpdateDataRepositoryAssociation": update_association,
    "DeleteDataRepositoryAssociation": delete_association,
    "DescribeDataRepositoryAssociations": _describe(store.ASSOCIATIONS, "AssociationId", "Associations"),
    "CreateVolume": create_volume,
    "UpdateVolume": update_volume,
    "DeleteVolume": delete_volume,
    "DescribeVolumes": _describe(store.VOLUMES, "VolumeId", "Volumes"),
    "CreateSnapshot": create_snapshot,
    "DeleteSnapshot": delete_snapshot,
    "DescribeSnapshots": _describe(store.SNAPSHOTS, "SnapshotId", "Snapshots"),
    "ListTagsForResource": lambda request: {"Tags": store.tagged(request["ResourceARN"])["Tags"]},
    "TagResource": tag,
}

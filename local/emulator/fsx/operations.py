"""The operations of the FSx API, each a function from request to answer.

Limits on values are those of botocore's model of the API (service.perform). Checked here is what concerns other
resources: networks, buckets, parents and children. Source: Amazon FSx API reference, 2026-11.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from ministack.core.responses import get_account_id, get_region
from ministack.services import ec2, s3

from local.emulator.fsx import records
from local.emulator.service import ApiError, Request
from local.emulator.wire import call

_LNET_PORT = 988
_MB_S = {"PERSISTENT_1": (50, 100, 200), "PERSISTENT_2": (125, 250, 500, 1000)}
"""PerUnitStorageThroughput on SSD by deployment type; the others have none."""
# Read as data: the product's packages are not installed here.
_REGIONS = json.loads((Path(__file__).parents[3] / "settings/data/fsx_regions.json").read_text("utf-8"))
_CREATING_SECONDS = 5
"""An association is CREATING until a Describe finds it available, and at most this long."""
_PARALLEL = (
    "Amazon FSx does not have the required permissions for the S3 bucket. "
    "Verify that FSx has correct permissions by checking the bucket policy."
)
"""What an association ends with while another one of its file system is CREATING.

Source: hashicorp/terraform-provider-aws issue 24678 (label upstream), comment of 2022-06-09; its remedy is to create
them one after the other."""
_CHILDREN = "DELETE_CHILD_VOLUMES_AND_SNAPSHOTS"


def _create_file_system(request: Request) -> Request:
    """Lustre and OpenZFS; available at once."""
    kind, capacity = request["FileSystemType"], request.get("StorageCapacity")
    subnet = ec2._subnets.get(request["SubnetIds"][0])
    if subnet is None:
        raise ApiError("InvalidNetworkSettings", f"The subnet ID '{request['SubnetIds'][0]}' does not exist")
    if kind not in {"LUSTRE", "OPENZFS"}:
        raise ApiError("UnsupportedOperation", f"FileSystemType {kind} is not emulated here: LUSTRE or OPENZFS.")
    if capacity is None:
        raise ApiError("MissingFileSystemConfiguration", "StorageCapacity is required.")
    vpc = subnet["VpcId"]
    groups = request.get("SecurityGroupIds") or [ec2._vpcs[vpc]["DefaultSecurityGroupId"]]
    for group in groups:
        if ec2._security_groups.get(group, {}).get("VpcId") != vpc:
            raise ApiError("InvalidNetworkSettings", f"The security group '{group}' is not of {vpc}")
    if kind == "LUSTRE":
        _check_lustre_network(request.get("LustreConfiguration", {}), groups)
        _check_deployment_type(request.get("LustreConfiguration", {}), capacity)
    record = records.new(
        "FileSystemId",
        "fs",
        "file-system",
        request,
        OwnerId=get_account_id(),
        FileSystemType=kind,
        StorageCapacity=capacity,
        StorageType=request.get("StorageType", "SSD"),
        VpcId=vpc,
        SubnetIds=request["SubnetIds"],
        KmsKeyId=request.get("KmsKeyId") or f"arn:aws:kms:{get_region()}:{get_account_id()}:key/aws-fsx",
    )
    key = record["FileSystemId"]
    record["DNSName"] = f"{key}.fsx.{get_region()}.amazonaws.com"
    if kind == "LUSTRE":
        record["FileSystemTypeVersion"] = request.get("FileSystemTypeVersion", "2.15")
        record["LustreConfiguration"] = {
            "DeploymentType": "SCRATCH_1",
            "CopyTagsToBackups": False,
            "DataCompressionType": "NONE",
            "WeeklyMaintenanceStartTime": "1:05:00",
            **request.get("LustreConfiguration", {}),
            "MountName": key[3:11],
        }
    else:
        settings = dict(request.get("OpenZFSConfiguration", {}))
        root = _new_volume(key, "fsx", "/fsx", settings.pop("RootVolumeConfiguration", {}), {})
        record["OpenZFSConfiguration"] = {
            "WeeklyMaintenanceStartTime": "1:05:00",
            **settings,
            "RootVolumeId": root["VolumeId"],
        }
    # Lustre has an interface for each server; two are enough here.
    servers = 2 if kind == "LUSTRE" else 1
    subnets = (request["SubnetIds"] * servers)[:servers]
    record["NetworkInterfaceIds"] = [_interface(key, one, groups) for one in subnets]
    return {"FileSystem": record}


def _check_deployment_type(settings: Request, capacity: int) -> None:
    """What belongs to which type.

    Sources: FSx API reference, CreateFileSystem and CreateFileSystemLustreConfiguration, CreateBackup; regions as
    recorded in settings/data/fsx_regions.json. The texts are not AWS's.
    """
    kind = settings.get("DeploymentType", "SCRATCH_1")
    tiers, given = _MB_S.get(kind), settings.get("PerUnitStorageThroughput")
    step = 3600 if kind == "SCRATCH_1" else 2400
    known = _REGIONS["lustre"]["regions"].get(get_region(), {"throughput": [given], "efa": True})
    newest = kind == "PERSISTENT_2"
    faults = {
        f"PerUnitStorageThroughput {given} is not valid for {kind}.": given not in (tiers or (None,)),
        f"StorageCapacity {capacity} is not valid for {kind}.": capacity not in (1200, 2400) and bool(capacity % step),
        f"MetadataConfiguration is not valid for {kind}.": "MetadataConfiguration" in settings and not newest,
        f"EFA is not available for {kind} in {get_region()}.": settings.get("EfaEnabled")
        and not (newest and known["efa"]),
        f"{kind} has no automatic backups.": settings.get("AutomaticBackupRetentionDays") and tiers is None,
        f"{kind} at {given} is not available in {get_region()}.": newest and given not in known["throughput"],
    }
    for message in (message for message, found in faults.items() if found):
        raise ApiError("BadRequest", message)


def _check_lustre_network(settings: Request, groups: list[str]) -> None:
    rules = [(group, rule) for group in groups for rule in ec2._security_groups[group]["IpPermissions"]]

    def everything(rule: Request) -> bool:
        return str(rule.get("IpProtocol")) == "-1"

    def opens(rule: Request) -> bool:
        return rule.get("IpProtocol") == "tcp" and int(rule["FromPort"]) <= _LNET_PORT <= int(rule["ToPort"])

    if not any(everything(rule) or opens(rule) for _, rule in rules):
        raise ApiError(
            "InvalidNetworkSettings",
            "The file system cannot be created because the default or provided security groups in the specified subnet "
            f"do not permit Lustre LNET network traffic on port {_LNET_PORT} ({', '.join(groups)}).",
        )
    if settings.get("EfaEnabled") and not any(
        everything(rule) and any(pair.get("GroupId") == group for pair in rule["UserIdGroupPairs"])
        for group, rule in rules
    ):
        raise ApiError("InvalidNetworkSettings", "EFA needs a security group that allows all traffic from itself.")


def _interface(file_system_id: str, subnet_id: str, groups: list[str]) -> str:
    description = f"Created by Amazon FSx for file system {file_system_id}"
    made = call("CreateNetworkInterface", SubnetId=subnet_id, Groups=groups, Description=description)
    key: str = made["NetworkInterface"]["NetworkInterfaceId"]
    ec2._network_interfaces[key]["Status"] = "in-use"
    return key


def _update_file_system(request: Request) -> Request:
    """Capacity may only grow; the settings given replace the present ones."""
    system = records.get("FileSystemId", request["FileSystemId"])
    present = int(system["StorageCapacity"])
    wanted = int(request.get("StorageCapacity", present))
    if wanted < present:
        raise ApiError("BadRequest", f"StorageCapacity cannot shrink from {present} to {wanted} GiB.")
    if "OpenZFSConfiguration" in system and wanted != present and 10 * wanted < 11 * present:
        raise ApiError("BadRequest", f"StorageCapacity {wanted} is not at least 10 percent greater than {present} GiB.")
    members = ("StorageCapacity", "LustreConfiguration", "OpenZFSConfiguration")
    return {"FileSystem": records.update("FileSystemId", request, *members)}


def _delete_file_system(request: Request) -> Request:
    """Associations and OpenZFS volumes go with it, child volumes only if the options say so."""
    key = request["FileSystemId"]
    interfaces = records.get("FileSystemId", key)["NetworkInterfaceIds"]
    volumes = [volume for volume in records.VOLUMES.values() if volume["FileSystemId"] == key]
    children = [v["VolumeId"] for v in volumes if "ParentVolumeId" in v["OpenZFSConfiguration"]]
    if children and _CHILDREN not in request.get("OpenZFSConfiguration", {}).get("Options", []):
        raise ApiError("BadRequest", f"File system {key} has volumes: {', '.join(children)}.")
    for store in (records.ASSOCIATIONS, records.VOLUMES):
        for child in [k for k, v in store.items() if v["FileSystemId"] == key]:
            del store[child]
    for interface in interfaces:
        ec2._network_interfaces.pop(interface, None)
    return records.delete("FileSystemId", request)


def _create_association(request: Request) -> Request:
    system = records.get("FileSystemId", request["FileSystemId"])
    paths = {"FileSystemPath": request.get("FileSystemPath", "/"), "DataRepositoryPath": request["DataRepositoryPath"]}
    if "LustreConfiguration" not in system:
        raise ApiError("BadRequest", "Data repository associations need a Lustre file system.")
    if system["LustreConfiguration"]["DeploymentType"] == "SCRATCH_1":
        raise ApiError("UnsupportedOperation", "SCRATCH_1 has no data repository associations.")
    repository = paths["DataRepositoryPath"]
    bucket = repository.removeprefix("s3://").split("/")[0]
    if bucket not in s3._buckets:
        message = f"DataRepositoryPath {repository}: the bucket '{bucket}' does not exist."
        raise ApiError("InvalidDataRepositoryType", message)
    for other in records.ASSOCIATIONS.values():
        for name, value in paths.items():
            first, second = (path.rstrip("/") + "/" for path in (value, other[name]))
            overlap = first.startswith(second) or second.startswith(first)
            if overlap and other["FileSystemId"] == system["FileSystemId"]:
                raise ApiError("BadRequest", f"{name} {value} overlaps {other[name]} of {other['AssociationId']}.")
    before = time.time() - _CREATING_SECONDS
    settle(key for key, other in records.ASSOCIATIONS.items() if other["CreationTime"] < before)
    busy = any(
        other["FileSystemId"] == system["FileSystemId"] and other["Lifecycle"] == "CREATING"
        for other in records.ASSOCIATIONS.values()
    )
    record = records.new(
        "AssociationId",
        "dra",
        "association",
        request,
        system["FileSystemId"],
        FileSystemId=system["FileSystemId"],
        **paths,
        S3=request.get("S3", {}),
        BatchImportMetaDataOnCreate=request.get("BatchImportMetaDataOnCreate", False),
        ImportedFileChunkSize=request.get("ImportedFileChunkSize", 1024),
    )
    record["Lifecycle"] = "CREATING"
    if busy:
        record |= {"Lifecycle": "FAILED", "FailureDetails": {"Message": _PARALLEL}}
    return {"Association": record}


def settle(identifiers: Iterable[str]) -> None:
    """Associations that were CREATING are available from now on."""
    for identifier in identifiers:
        if records.ASSOCIATIONS.get(identifier, {}).get("Lifecycle") == "CREATING":
            records.ASSOCIATIONS[identifier]["Lifecycle"] = "AVAILABLE"


def _describe_associations(request: Request) -> Request:
    settle(list(records.ASSOCIATIONS))
    return records.describe("AssociationId", "Associations")(request)


def _create_volume(request: Request) -> Request:
    settings = request.get("OpenZFSConfiguration")
    if not settings:
        raise ApiError("MissingVolumeConfiguration", "OpenZFSConfiguration is required.")
    parent = records.get("VolumeId", settings["ParentVolumeId"])
    path = f"{parent['OpenZFSConfiguration']['VolumePath']}/{request['Name']}"
    return {"Volume": _new_volume(parent["FileSystemId"], request["Name"], path, settings, request)}


def _new_volume(file_system_id: str, name: str, path: str, settings: Request, request: Request) -> Request:
    for other in records.VOLUMES.values():
        if (other["FileSystemId"], other["OpenZFSConfiguration"]["VolumePath"]) == (file_system_id, path):
            raise ApiError("BadRequest", f"Volume {path} exists already on {file_system_id}.")
    configuration = {
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
    members: Request = {"FileSystemId": file_system_id, "Name": name, "VolumeType": "OPENZFS"}
    members["OpenZFSConfiguration"] = configuration
    return records.new("VolumeId", "fsvol", "volume", request, file_system_id, **members)


def _delete_volume(request: Request) -> Request:
    """Refused while it has child volumes or snapshots that the options do not include."""
    key = records.get("VolumeId", request["VolumeId"])["VolumeId"]
    children = [k for k, v in records.VOLUMES.items() if v["OpenZFSConfiguration"].get("ParentVolumeId") == key]
    snapshots = [k for k, v in records.SNAPSHOTS.items() if v["VolumeId"] == key]
    options = request.get("OpenZFSConfiguration", {}).get("Options", [])
    if (children or snapshots) and _CHILDREN not in options:
        raise ApiError("BadRequest", f"Volume {key} has {', '.join(children + snapshots)}.")
    for child in children:
        _delete_volume({**request, "VolumeId": child})
    for snapshot in snapshots:
        del records.SNAPSHOTS[snapshot]
    return records.delete("VolumeId", request)


def _create_snapshot(request: Request) -> Request:
    volume = records.get("VolumeId", request["VolumeId"])["VolumeId"]
    record = records.new("SnapshotId", "fsvolsnap", "snapshot", request, volume, Name=request["Name"], VolumeId=volume)
    return {"Snapshot": record}


def _tag(request: Request) -> Request:
    record = records.tagged(request["ResourceARN"])
    merged = {t["Key"]: t["Value"] for t in [*record["Tags"], *request["Tags"]]}
    record["Tags"] = [{"Key": key, "Value": value} for key, value in merged.items()]
    return {}


OPERATIONS: dict[str, Callable[[Request], Request]] = {
    "CreateFileSystem": _create_file_system,
    "UpdateFileSystem": _update_file_system,
    "DeleteFileSystem": _delete_file_system,
    "DescribeFileSystems": records.describe("FileSystemId", "FileSystems"),
    "CreateDataRepositoryAssociation": _create_association,
    "UpdateDataRepositoryAssociation": lambda request: {
        "Association": records.update("AssociationId", request, "ImportedFileChunkSize", "S3")
    },
    "DeleteDataRepositoryAssociation": lambda request: records.delete("AssociationId", request),
    "DescribeDataRepositoryAssociations": _describe_associations,
    "CreateVolume": _create_volume,
    "UpdateVolume": lambda request: {"Volume": records.update("VolumeId", request, "Name", "OpenZFSConfiguration")},
    "DeleteVolume": _delete_volume,
    "DescribeVolumes": records.describe("VolumeId", "Volumes"),
    "CreateSnapshot": _create_snapshot,
    "DeleteSnapshot": lambda request: records.delete("SnapshotId", request),
    "DescribeSnapshots": records.describe("SnapshotId", "Snapshots"),
    "TagResource": _tag,
}

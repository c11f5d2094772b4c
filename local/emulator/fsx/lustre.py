"""What FSx for Lustre accepts, for file systems and for their ties to S3.

Sources: the API reference of CreateFileSystem (StorageCapacity, CreateFileSystemLustreConfiguration) and of
CreateDataRepositoryAssociation, and the user guide's pages on EFA and on deployment types.
"""

from __future__ import annotations

from typing import Any

from ministack.services import s3

from local.emulator.fsx import store
from local.emulator.fsx.store import FsxError

# MB/s per TiB by deployment type, SSD.
THROUGHPUT = {"PERSISTENT_1": (50, 100, 200), "PERSISTENT_2": (125, 250, 500, 1000)}
# With EFA: the smallest capacity (GiB), which is also the step, by throughput per TiB.
EFA_CAPACITY = {125: 38400, 250: 19200, 500: 9600, 1000: 4800}
METADATA_IOPS = (1500, 3000, 6000, *range(12000, 192001, 12000))
LUSTRE_VERSIONS = ("2.10", "2.12", "2.15")
LNET_PORT = 988
MAX_ASSOCIATIONS = 8


def check(capacity: int | None, settings: dict[str, Any], groups: list[dict[str, Any]], version: str) -> None:
    """Raise FsxError unless FSx would make this file system."""
    deployment = settings.get("DeploymentType", "SCRATCH_1")
    if capacity is None:
        raise FsxError("MissingFileSystemConfiguration", "StorageCapacity is required for FSx for Lustre.")
    if capacity < 1200 or (capacity != 1200 and capacity % (3600 if deployment == "SCRATCH_1" else 2400)):
        raise FsxError(
            "BadRequest",
            f"StorageCapacity {capacity} is not valid for {deployment}: 1200, 2400 or a multiple of 2400 GiB.",
        )
    allowed = THROUGHPUT.get(deployment)
    throughput = settings.get("PerUnitStorageThroughput")
    if allowed and throughput not in allowed:
        raise FsxError(
            "BadRequest", f"PerUnitStorageThroughput {throughput} is not valid for {deployment}: one of {allowed}."
        )
    if not allowed and throughput is not None:
        raise FsxError("BadRequest", f"PerUnitStorageThroughput is not valid for {deployment}.")
    if version not in LUSTRE_VERSIONS or (deployment == "PERSISTENT_2" and version == "2.10"):
        raise FsxError("BadRequest", f"FileSystemTypeVersion {version} is not valid for {deployment}.")
    if deployment == "PERSISTENT_2" and any(
        settings.get(key) for key in ("ImportPath", "ExportPath", "AutoImportPolicy")
    ):
        raise FsxError("BadRequest", "PERSISTENT_2 takes data repository associations, not ImportPath or ExportPath.")
    _check_metadata(settings)
    _check_efa(capacity, settings, groups)
    if not any(store.opens(group, LNET_PORT) for group in groups):
        named = ", ".join(group["GroupId"] for group in groups)
        raise FsxError(
            "InvalidNetworkSettings",
            "The file system cannot be created because the default or provided security groups in the specified subnet "
            f"do not permit Lustre LNET network traffic on port {LNET_PORT} ({named}).",
        )


def _check_metadata(settings: dict[str, Any]) -> None:
    metadata = settings.get("MetadataConfiguration")
    if not metadata:
        return
    mode, iops = metadata.get("Mode"), metadata.get("Iops")
    if mode == "USER_PROVISIONED" and iops not in METADATA_IOPS:
        raise FsxError(
            "BadRequest", f"Metadata Iops {iops} is not valid: 1500, 3000, 6000 or a multiple of 12000 to 192000."
        )
    if mode == "AUTOMATIC" and iops is not None:
        raise FsxError("BadRequest", "Metadata Iops is not valid with mode AUTOMATIC.")


def _check_efa(capacity: int, settings: dict[str, Any], groups: list[dict[str, Any]]) -> None:
    if not settings.get("EfaEnabled"):
        return
    if settings.get("DeploymentType") != "PERSISTENT_2" or not settings.get("MetadataConfiguration"):
        raise FsxError("BadRequest", "EFA needs a PERSISTENT_2 file system with a metadata configuration.")
    step = EFA_CAPACITY[settings["PerUnitStorageThroughput"]]
    if capacity % step:
        raise FsxError(
            "BadRequest",
            f"StorageCapacity {capacity} is not valid with EFA at {settings['PerUnitStorageThroughput']} MB/s/TiB: "
            f"a multiple of {step} GiB.",
        )
    if not any(_all_to_itself(group) for group in groups):
        raise FsxError("InvalidNetworkSettings", "EFA needs a security group that allows all traffic from itself.")


def _all_to_itself(group: dict[str, Any]) -> bool:
    return any(
        str(rule.get("IpProtocol")) == "-1"
        and any(pair.get("GroupId") == group["GroupId"] for pair in rule["UserIdGroupPairs"])
        for rule in group["IpPermissions"]
    )


def check_association(file_system: dict[str, Any], path: str, repository: str) -> None:
    """Raise FsxError unless FSx would tie this directory to this place in S3."""
    settings = file_system.get("LustreConfiguration")
    if not settings or settings["DeploymentType"] in {"SCRATCH_1", "PERSISTENT_1"}:
        raise FsxError(
            "BadRequest", "Data repository associations need a SCRATCH_2 or PERSISTENT_2 Lustre file system."
        )
    if not path.startswith("/"):
        raise FsxError("BadRequest", f"FileSystemPath {path} does not begin with /.")
    bucket = repository.removeprefix("s3://").split("/")[0]
    if not repository.startswith("s3://") or bucket not in s3._buckets:
        raise FsxError(
            "InvalidDataRepositoryType", f"DataRepositoryPath {repository}: the bucket '{bucket}' does not exist."
        )
    others = [a for a in store.ASSOCIATIONS.values() if a["FileSystemId"] == file_system["FileSystemId"]]
    if len(others) >= MAX_ASSOCIATIONS:
        raise FsxError(
            "ServiceLimitExceeded", f"A file system has at most {MAX_ASSOCIATIONS} data repository associations."
        )
    for other in others:
        for key, value in (("FileSystemPath", path), ("DataRepositoryPath", repository)):
            if store.overlaps(other[key], value):
                raise FsxError("BadRequest", f"{key} {value} overlaps {other[key]} of {other['AssociationId']}.")

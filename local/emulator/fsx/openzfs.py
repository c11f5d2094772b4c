"""What FSx for OpenZFS accepts.

Sources: the API reference of CreateFileSystemOpenZFSConfiguration and CreateOpenZFSVolumeConfiguration.
"""

from __future__ import annotations

from typing import Any

from local.emulator.fsx import store
from local.emulator.fsx.store import FsxError

FIRST_GENERATION = (64, 128, 256, 512, 1024, 2048, 3072, 4096)
SECOND_GENERATION = (160, 320, 640, 1280, 2560, 3840, 5120, 7680, 10240)
THROUGHPUT = {
    "SINGLE_AZ_1": FIRST_GENERATION,
    "SINGLE_AZ_HA_1": FIRST_GENERATION,
    "SINGLE_AZ_2": SECOND_GENERATION,
    "SINGLE_AZ_HA_2": SECOND_GENERATION,
    "MULTI_AZ_1": SECOND_GENERATION,
}
CAPACITY = range(64, 524289)
RECORD_SIZES = (4, 8, 16, 32, 64, 128, 256, 512, 1024)


def check(capacity: int | None, settings: dict[str, Any], subnets: int) -> None:
    """Raise FsxError unless FSx would make this file system."""
    deployment = settings.get("DeploymentType", "")
    if deployment not in THROUGHPUT:
        raise FsxError("BadRequest", f"DeploymentType {deployment} is not valid: one of {', '.join(THROUGHPUT)}.")
    throughput = settings.get("ThroughputCapacity")
    if throughput not in THROUGHPUT[deployment]:
        raise FsxError(
            "BadRequest",
            f"ThroughputCapacity {throughput} is not valid for {deployment}: one of {THROUGHPUT[deployment]}.",
        )
    if capacity is None or capacity not in CAPACITY:
        raise FsxError(
            "BadRequest", f"StorageCapacity {capacity} is not valid: {CAPACITY.start} to {CAPACITY.stop - 1} GiB."
        )
    if subnets != (2 if deployment == "MULTI_AZ_1" else 1):
        raise FsxError("InvalidNetworkSettings", f"{deployment} does not take {subnets} subnets.")


def check_volume(settings: dict[str, Any]) -> dict[str, Any]:
    """The parent volume; raises FsxError unless FSx would make this volume below it."""
    parent = store.volume(settings["ParentVolumeId"])
    record_size = settings.get("RecordSizeKiB", 128)
    if record_size not in RECORD_SIZES:
        raise FsxError("BadRequest", f"RecordSizeKiB {record_size} is not valid: one of {RECORD_SIZES}.")
    quota, reserved = settings.get("StorageCapacityQuotaGiB", -1), settings.get("StorageCapacityReservationGiB", -1)
    if quota > 0 and reserved > quota:
        raise FsxError(
            "BadRequest", f"StorageCapacityReservationGiB {reserved} exceeds StorageCapacityQuotaGiB {quota}."
        )
    return parent


def volume(
    file_system_id: str, name: str, path: str, settings: dict[str, Any], tags: list[dict[str, str]]
) -> dict[str, Any]:
    """Record a volume; raises FsxError for a path that is taken."""
    taken = {
        v["OpenZFSConfiguration"]["VolumePath"] for v in store.VOLUMES.values() if v["FileSystemId"] == file_system_id
    }
    if path in taken:
        raise FsxError("BadRequest", f"Volume {path} exists already on {file_system_id}.")
    key = store.new_id("fsvol")
    record: dict[str, Any] = {
        "VolumeId": key,
        "FileSystemId": file_system_id,
        "Name": name,
        "VolumeType": "OPENZFS",
        "Lifecycle": "AVAILABLE",
        "CreationTime": store.now(),
        "ResourceARN": store.arn("volume", file_system_id, key),
        "Tags": tags,
        "OpenZFSConfiguration": {
            "VolumePath": path,
            "RecordSizeKiB": 128,
            "DataCompressionType": "NONE",
            "CopyTagsToSnapshots": False,
            "ReadOnly": False,
            "StorageCapacityQuotaGiB": -1,
            "StorageCapacityReservationGiB": -1,
            "NfsExports": [{"ClientConfigurations": [{"Clients": "*", "Options": ["rw", "crossmnt"]}]}],
            **settings,
        },
    }
    store.VOLUMES[key] = record
    return record

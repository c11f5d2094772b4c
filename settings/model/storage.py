"""Storage of an environment: buckets, FSx for Lustre with its S3 associations, FSx for OpenZFS."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from settings.model.base import DailyTime, FileSystemPath, MountPath, Part, StorageName, WeeklyTime

Event = Literal["new", "changed", "deleted"]
BucketPurpose = Literal["data", "checkpoints"]


class Backups(Part):
    """Automatic backups of a file system."""

    days: int = Field(default=0, ge=0, le=90, description="Days that automatic backups are kept; 0 makes none.")
    window: DailyTime = Field(default="16:00", description="Daily start of the backup, UTC.")


class Association(Part):
    """A data repository association: a folder of the file system tied to a prefix of a bucket."""

    path: FileSystemPath = Field(description="Folder of the file system, from its root, for example /data.")
    bucket: BucketPurpose = Field(description="Which of the environment's buckets.")
    prefix: str = Field(
        default="",
        pattern=r"^([A-Za-z0-9!_.*'()-]+/)*$",
        description="Prefix in the bucket, ending in a slash.",
    )
    import_events: tuple[Event, ...] = Field(
        default=("new", "changed", "deleted"),
        description="Changes in S3 that come into the file system by themselves.",
    )
    export_events: tuple[Event, ...] = Field(
        default=(), description="Changes in the file system that go out to S3 by themselves."
    )


class Lustre(Part):
    """One FSx for Lustre file system, deployment type PERSISTENT_2, SSD."""

    name: StorageName
    mount: MountPath
    capacity_gib: int = Field(description="1200, or a multiple of 2400.", gt=0)
    throughput: Literal[125, 250, 500, 1000] = Field(default=250, description="MB/s per TiB.")
    compression: Literal["lz4", "none"] = "lz4"
    efa: bool = Field(
        default=False, description="EFA and GPUDirect Storage; capacities are then larger, see the faults."
    )
    metadata_iops: (
        Literal[
            1500,
            3000,
            6000,
            12000,
            24000,
            36000,
            48000,
            60000,
            72000,
            84000,
            96000,
            108000,
            120000,
            132000,
            144000,
            156000,
            168000,
            180000,
            192000,
        ]
        | None
    ) = Field(default=None, description="Provisioned metadata IOPS; left out, FSx scales them with the capacity.")
    maintenance_window: WeeklyTime = "7:18:00"
    backups: Backups = Backups()
    associations: tuple[Association, ...] = ()


class Snapshots(Part):
    """Snapshots of an OpenZFS volume, visible to users under `.zfs/snapshot`, on a schedule."""

    every_hours: int = Field(default=24, ge=1, le=168)
    keep: int = Field(default=7, ge=1, le=100)


class Volume(Part):
    """One OpenZFS volume, mounted on every node."""

    name: StorageName
    mount: MountPath
    quota_gib: int | None = Field(default=None, gt=0, description="Most that the volume may hold, GiB.")
    user_quota_gib: int | None = Field(default=None, gt=0, description="Most that one user may hold by default, GiB.")
    compression: Literal["lz4", "zstd", "none"] = "lz4"
    snapshots: Snapshots | None = None


class OpenZfs(Part):
    """One FSx for OpenZFS file system with its volumes, for homes and shared code."""

    name: StorageName = "homes"
    capacity_gib: int = Field(ge=64, le=524288, description="SSD capacity, GiB.")
    throughput: int = Field(default=320, description="MB/s of the file system.")
    deployment: Literal["SINGLE_AZ_HA_2", "SINGLE_AZ_HA_1", "SINGLE_AZ_2", "SINGLE_AZ_1"] = "SINGLE_AZ_HA_2"
    maintenance_window: WeeklyTime = "7:18:00"
    backups: Backups = Backups(days=7)
    volumes: tuple[Volume, ...] = Field(min_length=1)


class Buckets(Part):
    """Lifecycle of the data and checkpoint buckets."""

    name_prefix: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{1,28}[a-z0-9]$")] | None = Field(
        default=None,
        description="Fixed names <prefix>-data, <prefix>-checkpoints and <prefix>-assets; left out, CloudFormation names them.",
    )
    checkpoint_days: int = Field(
        default=90,
        ge=7,
        le=3650,
        description="Days until an intermediate checkpoint under checkpoints/ expires.",
    )
    log_days: int = Field(default=180, ge=7, le=3650, description="Days until what lies under logs/ expires.")
    noncurrent_days: int = Field(
        default=30, ge=1, le=3650, description="Days that a replaced or deleted version is kept."
    )
    infrequent_access_days: int | None = Field(
        default=30,
        ge=30,
        description="Days until data sets and results go to Intelligent-Tiering; null never.",
    )


class Storage(Part):
    """File systems and buckets."""

    buckets: Buckets = Buckets()
    lustre: tuple[Lustre, ...] = ()
    openzfs: OpenZfs | None = None

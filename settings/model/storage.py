"""Storage of an environment: buckets, FSx for Lustre with its S3 associations, FSx for OpenZFS."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from settings.model import patterns
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
        pattern=patterns.PREFIX,
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

    name: StorageName = Field(description="Name in the cluster and in outputs.")
    mount: MountPath = Field(description="Where every node mounts it.")
    capacity_gib: int = Field(description="1200, or a multiple of 2400.", gt=0)
    throughput: Literal[125, 250, 500, 1000] = Field(default=250, description="MB/s per TiB.")
    compression: Literal["lz4", "none"] = Field(default="lz4", description="Compression of the data on disk.")
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
    maintenance_window: WeeklyTime = Field(
        default="7:18:00", description="Weekly start of maintenance, day:HH:MM in UTC, Monday is 1."
    )
    backups: Backups = Field(default=Backups(), description="Automatic backups; none beside associations.")
    associations: tuple[Association, ...] = Field(default=(), description="S3 associations; at most 8.")


class Snapshots(Part):
    """Snapshots of an OpenZFS volume, visible to users under `.zfs/snapshot`, on a schedule."""

    every_hours: int = Field(default=24, ge=1, le=168, description="Hours between two snapshots.")
    keep: int = Field(default=7, ge=1, le=100, description="Snapshots that are kept.")


class Volume(Part):
    """One OpenZFS volume, mounted on every node."""

    name: StorageName = Field(description="Name in the cluster and in outputs.")
    mount: MountPath = Field(description="Where every node mounts it.")
    quota_gib: int | None = Field(default=None, gt=0, description="Most that the volume may hold, GiB.")
    compression: Literal["lz4", "zstd", "none"] = Field(default="lz4", description="Compression of the data on disk.")
    snapshots: Snapshots | None = Field(default=None, description="Snapshots on a schedule; left out, none.")


class OpenZfs(Part):
    """One FSx for OpenZFS file system with its volumes, for homes and shared code."""

    name: StorageName = Field(default="homes", description="Name in outputs.")
    capacity_gib: int = Field(ge=64, le=524288, description="SSD capacity, GiB.")
    throughput: int = Field(default=320, description="MB/s of the file system.")
    deployment: Literal["SINGLE_AZ_HA_2", "SINGLE_AZ_HA_1", "SINGLE_AZ_2", "SINGLE_AZ_1"] = Field(
        default="SINGLE_AZ_HA_2", description="FSx deployment type; HA has a standby in the same zone."
    )
    maintenance_window: WeeklyTime = Field(
        default="7:18:00", description="Weekly start of maintenance, day:HH:MM in UTC, Monday is 1."
    )
    backups: Backups = Field(default=Backups(days=7), description="Automatic backups.")
    volumes: tuple[Volume, ...] = Field(min_length=1, description="Volumes, at least one.")


class Buckets(Part):
    """Lifecycle of the data and checkpoint buckets."""

    name_prefix: Annotated[str, StringConstraints(pattern=patterns.BUCKET_PREFIX)] | None = Field(
        default=None,
        description="Fixed names PREFIX-data, PREFIX-checkpoints, PREFIX-assets; left out, CloudFormation names them.",
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
    intelligent_tiering_days: int | None = Field(
        default=30,
        ge=30,
        description="Days until data sets and results go to Intelligent-Tiering; null never.",
    )


class Storage(Part):
    """File systems and buckets."""

    buckets: Buckets = Field(default=Buckets(), description="The environment's S3 buckets.")
    lustre: tuple[Lustre, ...] = Field(default=(), description="FSx for Lustre file systems, any number.")
    openzfs: OpenZfs | None = Field(default=None, description="An FSx for OpenZFS file system.")

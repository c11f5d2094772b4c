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

    days: int = Field(default=0, ge=0, le=90, description="Days that automatic backups are kept; 0 disables backups.")
    window: DailyTime = Field(default="16:00", description="Daily start of the backup, HH:MM in UTC.")


class Association(Part):
    """A data repository association: links a folder of the file system to a prefix of a bucket."""

    path: FileSystemPath = Field(description="Folder of the file system, from its root, for example /data.")
    bucket: BucketPurpose = Field(description="The environment's bucket that the folder is linked to.")
    prefix: str = Field(
        default="",
        pattern=patterns.PREFIX,
        description="Prefix in the bucket, ending in a slash. Default: the whole bucket.",
    )
    import_events: tuple[Event, ...] = Field(
        default=("new", "changed", "deleted"),
        description="Changes in S3 that are imported into the file system automatically.",
    )
    export_events: tuple[Event, ...] = Field(
        default=(), description="Changes in the file system that are exported to S3 automatically."
    )


def lustre_throughput_mb_s(capacity_gib: int, per_tib: int) -> int:
    """Provisioned throughput of a Lustre file system in MB/s.

    FSx counts a capacity of 2400 GiB as 2.4 TiB, so this divides by 1000, not by 1024. Source: FSx API reference,
    CreateFileSystemLustreConfiguration, PerUnitStorageThroughput: "For a 2.4-TiB file system, provisioning 50
    MB/s/TiB of PerUnitStorageThroughput yields 120 MB/s of file system throughput."
    """
    return capacity_gib * per_tib // 1000


class Lustre(Part):
    """One FSx for Lustre file system, deployment type PERSISTENT_2, SSD."""

    name: StorageName = Field(description="Name in the cluster and in outputs.")
    mount: MountPath = Field(description="Mount point on every node.")
    capacity_gib: int = Field(description="Storage capacity in GiB: 1200, or a multiple of 2400.", gt=0)
    throughput: Literal[125, 250, 500, 1000] = Field(
        default=250, description="Throughput in MB/s for each TiB of capacity."
    )
    compression: Literal["lz4", "none"] = Field(default="lz4", description="Compression of the data on disk.")
    efa: bool = Field(
        default=False,
        description="Access over EFA, with GPUDirect Storage. The capacity must then be a multiple of 38400 GiB at"
        " throughput 125, of 19200 at 250, of 9600 at 500, of 4800 at 1000.",
    )
    # fmt: off
    metadata_iops: (
        Literal[
            1500, 3000, 6000, 12000, 24000, 36000, 48000, 60000, 72000, 84000, 96000, 108000, 120000, 132000, 144000,
            156000, 168000, 180000, 192000,
        ]
        | None
    ) = Field(default=None, description="Provisioned metadata IOPS. Default: FSx scales them with the capacity.")
    # fmt: on
    maintenance_window: WeeklyTime = Field(
        default="7:18:00", description="Weekly start of maintenance, day:HH:MM in UTC, Monday is 1."
    )
    backups: Backups = Field(
        default=Backups(), description="Automatic backups; not possible together with associations."
    )
    associations: tuple[Association, ...] = Field(default=(), description="S3 associations; at most 8.")

    @property
    def throughput_mb_s(self) -> int:
        """Provisioned throughput of the whole file system in MB/s."""
        return lustre_throughput_mb_s(self.capacity_gib, self.throughput)


class Snapshots(Part):
    """Scheduled snapshots of an OpenZFS volume. Users find them under `.zfs/snapshot`."""

    every_hours: int = Field(default=24, ge=1, le=168, description="Hours between two snapshots.")
    keep: int = Field(default=7, ge=1, le=100, description="Number of snapshots to keep.")


class Volume(Part):
    """One OpenZFS volume, mounted on every node."""

    name: StorageName = Field(description="Name in the cluster and in outputs.")
    mount: MountPath = Field(description="Mount point on every node.")
    quota_gib: int | None = Field(
        default=None, gt=0, description="Maximum size of the volume in GiB. Default: no quota."
    )
    compression: Literal["lz4", "zstd", "none"] = Field(default="lz4", description="Compression of the data on disk.")
    snapshots: Snapshots | None = Field(default=None, description="Scheduled snapshots. Default: none.")


class OpenZfs(Part):
    """One FSx for OpenZFS file system with its volumes, for homes and shared code."""

    name: StorageName = Field(default="homes", description="Name in outputs.")
    capacity_gib: int = Field(ge=64, le=524288, description="SSD capacity in GiB.")
    throughput: int = Field(default=320, description="Throughput of the file system in MB/s.")
    deployment: Literal["SINGLE_AZ_HA_2", "SINGLE_AZ_HA_1", "SINGLE_AZ_2", "SINGLE_AZ_1"] = Field(
        default="SINGLE_AZ_HA_2", description="FSx deployment type; HA types have a standby server in the same zone."
    )
    maintenance_window: WeeklyTime = Field(
        default="7:18:00", description="Weekly start of maintenance, day:HH:MM in UTC, Monday is 1."
    )
    backups: Backups = Field(default=Backups(days=7), description="Automatic backups.")
    volumes: tuple[Volume, ...] = Field(min_length=1, description="Volumes; at least one.")


class Buckets(Part):
    """Names and lifecycle of the S3 buckets."""

    name_prefix: Annotated[str, StringConstraints(pattern=patterns.BUCKET_PREFIX)] | None = Field(
        default=None,
        description="Fixed bucket names: PREFIX-data, PREFIX-checkpoints, PREFIX-assets and PREFIX-access-logs."
        " Default: CloudFormation generates names.",
    )
    checkpoint_days: int = Field(
        default=90, ge=7, le=3650, description="Days until an intermediate checkpoint under checkpoints/ expires."
    )
    log_days: int = Field(default=180, ge=7, le=3650, description="Days until objects under logs/ expire.")
    noncurrent_days: int = Field(
        default=30, ge=1, le=3650, description="Days that replaced and deleted versions are kept."
    )
    intelligent_tiering_days: int | None = Field(
        default=30, ge=30, description="Days until data sets and results move to Intelligent-Tiering; null: never."
    )


class Storage(Part):
    """File systems and buckets."""

    buckets: Buckets = Field(default=Buckets(), description="The environment's S3 buckets.")
    lustre: tuple[Lustre, ...] = Field(default=(), description="FSx for Lustre file systems.")
    openzfs: OpenZfs | None = Field(default=None, description="An FSx for OpenZFS file system. Default: none.")

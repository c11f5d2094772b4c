"""Storage of an environment: buckets, FSx for Lustre with its S3 associations, FSx for OpenZFS."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from settings.model.base import STEP, MountPath, Part, StorageName, path, text

_TIME = r"([01]\d|2[0-3]):([0-5]\d)"
_PREFIX = "folders that each end in a slash, for example checkpoints/ (empty for the whole bucket)"
_BUCKET = "3 to 30 lower-case letters, digits and hyphens, starting and ending with a letter or digit"

FileSystemPath = Annotated[str, path(f"/({STEP}(/{STEP})*)?", "/ or an absolute path inside the file system", "/data")]
Prefix = Annotated[str, text(r"([A-Za-z0-9!_.*'()-]*[A-Za-z0-9!_*'()-][A-Za-z0-9!_.*'()-]*/)*", _PREFIX)]
BucketPrefix = Annotated[str, text("[a-z0-9][a-z0-9-]{1,28}[a-z0-9]", _BUCKET)]
WeeklyTime = Annotated[str, text(f"[1-7]:{_TIME}", "day:HH:MM in UTC, Monday is 1, for example 7:18:00")]
DailyTime = Annotated[str, text(_TIME, "HH:MM in UTC, for example 16:00")]
Event = Literal["new", "changed", "deleted"]
_EXISTING_BUCKET = "data, checkpoints, or s3://<name> of a bucket that exists, of at most 63 characters"
Bucket = Annotated[str, text("(data|checkpoints|s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])", _EXISTING_BUCKET)]
_EXISTING_ID = "the id of a Lustre file system, fs- and 17 hexadecimal digits, or of an OpenZFS volume, fsvol- and 17"


class Backups(Part):
    """Automatic backups of a file system."""

    days: int = Field(0, ge=0, le=90, description="Days that automatic backups are kept; 0 disables backups.")
    window: DailyTime = Field("16:00", description="Daily start of the backup, HH:MM in UTC.")


class Association(Part):
    """A data repository association: links a folder of the file system to a prefix of a bucket."""

    path: FileSystemPath = Field(description="Folder of the file system, from its root, for example /data.")
    bucket: Bucket = Field(
        description="The environment's bucket that the folder is linked to, data or checkpoints, or s3://NAME for a"
        " bucket of the same account and region that exists, which Trainyard does not change."
    )
    prefix: Prefix = Field("", description="Prefix in the bucket, ending in a slash. Default: the whole bucket.")
    import_events: tuple[Event, ...] = Field(
        ("new", "changed", "deleted"), description="Changes in S3 that are imported into the file system automatically."
    )
    export_events: tuple[Event, ...] = Field(
        (), description="Changes in the file system that are exported to S3 automatically."
    )


def lustre_throughput_mb_s(capacity_gib: int, per_tib: int) -> int:
    """Provisioned throughput of a Lustre file system in MB/s.

    FSx counts a capacity of 2400 GiB as 2.4 TiB, so this divides by 1000, not by 1024. Source: FSx API reference,
    CreateFileSystemLustreConfiguration, PerUnitStorageThroughput: "For a 2.4-TiB file system, provisioning 50
    MB/s/TiB of PerUnitStorageThroughput yields 120 MB/s of file system throughput."
    """
    return capacity_gib * per_tib // 1000


class Lustre(Part):
    """One FSx for Lustre file system on SSD."""

    name: StorageName = Field(description="Name in the cluster and in outputs.")
    mount: MountPath = Field(description="Mount point on every node.")
    capacity_gib: int = Field(description="Storage capacity in GiB: 1200, or a multiple of 2400.", gt=0)
    deployment: Literal["PERSISTENT_2", "PERSISTENT_1", "SCRATCH_2"] = Field(
        "PERSISTENT_2",
        description="FSx deployment type. Not every region has PERSISTENT_2. SCRATCH_2 replicates nothing: a failed"
        " server loses files.",
    )
    throughput: Literal[50, 100, 125, 200, 250, 500, 1000] = Field(
        250,
        description="Throughput in MB/s for each TiB of capacity: 125, 250, 500 or 1000 with PERSISTENT_2; 50, 100 or"
        " 200 with PERSISTENT_1; 200 with SCRATCH_2.",
    )
    compression: Literal["lz4", "none"] = Field("lz4", description="Compression of the data on disk.")
    efa: bool = Field(
        False,
        description="Access over EFA, with PERSISTENT_2 only. The capacity must then be a multiple of 38400 GiB at"
        " throughput 125, of 19200 at 250, of 9600 at 500, of 4800 at 1000.",
    )
    # fmt: off
    metadata_iops: (
        Literal[
            1500, 3000, 6000, 12000, 24000, 36000, 48000, 60000, 72000, 84000, 96000, 108000, 120000, 132000, 144000,
            156000, 168000, 180000, 192000,
        ]
        | None
    ) = Field(None, description="Metadata IOPS, with PERSISTENT_2 only. Default: FSx scales them with the capacity.")
    # fmt: on
    maintenance_window: WeeklyTime = Field(
        "7:18:00", description="Weekly start of maintenance, day:HH:MM in UTC, Monday is 1."
    )
    backups: Backups = Field(Backups(), description="Automatic backups; not with associations or SCRATCH_2.")
    associations: tuple[Association, ...] = Field((), description="S3 associations; at most 8.")

    @property
    def throughput_mb_s(self) -> int:
        """Provisioned throughput of the whole file system in MB/s."""
        return lustre_throughput_mb_s(self.capacity_gib, self.throughput)


class Snapshots(Part):
    """Scheduled snapshots of an OpenZFS volume. Users find them under `.zfs/snapshot`."""

    every_hours: int = Field(24, ge=1, le=168, description="Hours between two snapshots.")
    keep: int = Field(7, ge=1, le=100, description="Number of snapshots to keep.")


class Volume(Part):
    """One OpenZFS volume, mounted on every node."""

    name: StorageName = Field(description="Name in the cluster and in outputs.")
    mount: MountPath = Field(description="Mount point on every node.")
    quota_gib: int | None = Field(None, gt=0, description="Maximum size of the volume in GiB. Default: no quota.")
    compression: Literal["lz4", "zstd", "none"] = Field("lz4", description="Compression of the data on disk.")
    snapshots: Snapshots | None = Field(None, description="Scheduled snapshots. Default: none.")


class OpenZfs(Part):
    """One FSx for OpenZFS file system with its volumes, for homes and shared code."""

    name: StorageName = Field("homes", description="Name in outputs.")
    capacity_gib: int = Field(ge=64, le=524288, description="SSD capacity in GiB.")
    throughput: int = Field(320, description="Throughput of the file system in MB/s.")
    deployment: Literal["SINGLE_AZ_HA_2", "SINGLE_AZ_HA_1", "SINGLE_AZ_2", "SINGLE_AZ_1"] = Field(
        "SINGLE_AZ_HA_2", description="FSx deployment type; HA types have a standby server in the same zone."
    )
    maintenance_window: WeeklyTime = Field(
        "7:18:00", description="Weekly start of maintenance, day:HH:MM in UTC, Monday is 1."
    )
    backups: Backups = Field(Backups(days=7), description="Automatic backups.")
    volumes: tuple[Volume, ...] = Field(min_length=1, description="Volumes; at least one.")


class ExistingFileSystem(Part):
    """A file system of the same VPC that exists. Trainyard mounts it; it neither changes nor deletes it."""

    name: StorageName = Field(description="Name in the cluster.")
    mount: MountPath = Field(description="Mount point on every node.")
    id: Annotated[str, text("fs(vol)?-[0-9a-f]{17}", _EXISTING_ID)] = Field(
        description="Id of an FSx for Lustre file system (fs-...) or of an FSx for OpenZFS volume (fsvol-...)."
    )

    @property
    def type(self) -> Literal["lustre", "openzfs"]:
        return "openzfs" if self.id.startswith("fsvol") else "lustre"


class Buckets(Part):
    """Names and lifecycle of the S3 buckets."""

    name_prefix: BucketPrefix | None = Field(
        None,
        description="Fixed bucket names: PREFIX-data, PREFIX-checkpoints, PREFIX-assets and PREFIX-access-logs."
        " Default: CloudFormation generates names.",
    )
    checkpoint_days: int = Field(
        90,
        ge=7,
        le=3650,
        description="Days until an intermediate checkpoint under checkpoints/ in the checkpoint bucket expires.",
    )
    log_days: int = Field(
        180, ge=7, le=3650, description="Days until objects under logs/ in the checkpoint bucket expire."
    )
    noncurrent_days: int = Field(30, ge=1, le=3650, description="Days that replaced and deleted versions are kept.")
    intelligent_tiering_days: int | None = Field(
        30, ge=30, description="Days until data sets and results move to Intelligent-Tiering; null: never."
    )


class Storage(Part):
    """File systems and buckets."""

    buckets: Buckets = Field(Buckets(), description="The environment's S3 buckets.")
    lustre: tuple[Lustre, ...] = Field((), description="FSx for Lustre file systems.")
    openzfs: OpenZfs | None = Field(None, description="An FSx for OpenZFS file system. Default: none.")
    existing: tuple[ExistingFileSystem, ...] = Field((), description="File systems that exist already.")

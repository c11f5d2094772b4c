"""The storage stack of an environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from constructs import Construct

from settings.model import Environment
from settings.model.storage import BucketPurpose
from stacks.environment_stack import EnvironmentStack
from trainyard.buckets import Buckets
from trainyard.lifecycle import expiring
from trainyard.lustre import LustreFileSystem
from trainyard.network import Network
from trainyard.openzfs import OpenZfsFileSystem
from trainyard.retention import log_group
from trainyard.security import SecurityGroups
from trainyard.volume_snapshots import VolumeSnapshots


class StorageStack(EnvironmentStack):
    """Buckets, Lustre and OpenZFS file systems. The keys of `lustre` are the names in the settings."""

    buckets: Buckets
    lustre: Mapping[str, LustreFileSystem]
    openzfs: OpenZfsFileSystem | None

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
        network: Network,
        security_groups: SecurityGroups,
    ) -> None:
        super().__init__(
            scope,
            "storage",
            environment=environment,
            holds="buckets, FSx for Lustre, FSx for OpenZFS",
            termination_protection="keep" in (environment.retention.buckets, environment.retention.file_systems),
        )
        storage = environment.storage
        kept = environment.retention.file_systems == "keep"
        self.buckets = Buckets(
            self,
            "Buckets",
            buckets=storage.buckets,
            retention=environment.retention.buckets,
            expiring={bucket: expiring(environment, bucket) for bucket in get_args(BucketPurpose)},
        )
        self.lustre = {}
        if storage.lustre:
            log = log_group(
                self,
                "LustreLogs",
                days=environment.cluster.monitoring.log_days,
                kept=environment.retention.logs == "keep",
                # FSx writes only to groups whose name begins with /aws/fsx/.
                log_group_name=f"/aws/fsx/{self.stack_name}",
            )
            self.lustre = {
                lustre.name: LustreFileSystem(
                    self,
                    f"Lustre-{lustre.name}",
                    lustre=lustre,
                    subnet=network.private_subnet,
                    security_groups=[security_groups.lustre],
                    log_group=log,
                    kept=kept,
                )
                for lustre in storage.lustre
            }
        self.openzfs = None
        if storage.openzfs is not None:
            self.openzfs = OpenZfsFileSystem(
                self,
                "OpenZfs",
                openzfs=storage.openzfs,
                vpc_cidr=network.vpc.vpc_cidr_block,
                subnet=network.private_subnet,
                security_groups=[security_groups.openzfs],
                kept=kept,
            )
            schedules = {volume.name: volume.snapshots for volume in storage.openzfs.volumes if volume.snapshots}
            if schedules:
                VolumeSnapshots(
                    self,
                    "VolumeSnapshots",
                    file_system_id=self.openzfs.file_system_id,
                    volume_ids=self.openzfs.volume_ids,
                    schedules=schedules,
                )

"""The storage stack of an environment."""

from __future__ import annotations

from collections.abc import Mapping

from constructs import Construct

from settings.lifecycle import expiring
from settings.model import Environment
from stacks.environment_stack import EnvironmentStack
from stacks.network import NetworkStack
from trainyard.buckets import Buckets
from trainyard.lustre import LustreFileSystem
from trainyard.openzfs import OpenZfsFileSystem
from trainyard.retention import log_group
from trainyard.volume_snapshots import VolumeSnapshots


class StorageStack(EnvironmentStack):
    """Buckets, Lustre and OpenZFS file systems. The keys of `lustre` are the names in the settings."""

    buckets: Buckets
    lustre: Mapping[str, LustreFileSystem]
    openzfs: OpenZfsFileSystem | None

    def __init__(self, scope: Construct, *, environment: Environment, network: NetworkStack) -> None:
        retention, storage = environment.retention, environment.storage
        super().__init__(
            scope,
            "storage",
            environment=environment,
            holds="buckets, FSx for Lustre, FSx for OpenZFS",
            termination_protection="keep" in (retention.buckets, retention.file_systems),
        )
        subnet, groups = network.network.private_subnet, network.security_groups
        kept = retention.file_systems == "keep"
        self.buckets = Buckets(
            self, "Buckets", buckets=storage.buckets, retention=retention.buckets, expiring=expiring(environment)
        )
        self.lustre = {}
        if storage.lustre:
            log = log_group(
                self,
                "LustreLogs",
                days=environment.cluster.monitoring.log_days,
                kept=self.keeps_logs,
                # FSx writes only to groups whose name begins with /aws/fsx/.
                log_group_name=f"/aws/fsx/{self.stack_name}",
            )
            self.lustre = {
                lustre.name: LustreFileSystem(
                    self,
                    f"Lustre-{lustre.name}",
                    lustre=lustre,
                    subnet=subnet,
                    security_group=groups.lustre,
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
                vpc_cidr=network.network.vpc.vpc_cidr_block,
                subnet=subnet,
                security_group=groups.openzfs,
                kept=kept,
                home_quotas=environment.people.home_quotas(),
            )
            if any(volume.snapshots for volume in storage.openzfs.volumes):
                VolumeSnapshots(self, "VolumeSnapshots", openzfs=storage.openzfs, file_system=self.openzfs)

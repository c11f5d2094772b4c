"""FSx for OpenZFS: homes and shared code."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import CfnTag, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_fsx as fsx
from constructs import Construct

from settings.model.storage import OpenZfs
from trainyard.retention import retain


class OpenZfsFileSystem(Construct):
    """One FSx for OpenZFS file system and its volumes, each exported by NFS to the VPC only.

    The root volume is empty and read-only. Volumes use no_root_squash: the head node creates users' homes as root.
    """

    file_system_id: str
    dns_name: str
    volume_ids: dict[str, str]

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        openzfs: OpenZfs,
        vpc_cidr: str,
        subnet: ec2.ISubnet,
        security_group: ec2.ISecurityGroup,
        kept: bool,
        home_quotas: Mapping[int, int] | None = None,
    ) -> None:
        """Args: home_quotas: GiB by Unix user id, of the volume that is mounted on /home."""
        super().__init__(scope, construct_id)
        stack_name = Stack.of(self).stack_name
        backed_up = openzfs.backups.days > 0
        # Otherwise volumes and snapshots that users or schedules have created would block the deletion.
        options = None if kept else ["DELETE_CHILD_VOLUMES_AND_SNAPSHOTS"]
        read_only = fsx.CfnFileSystem.ClientConfigurationsProperty(clients=vpc_cidr, options=["ro", "crossmnt"])
        file_system = fsx.CfnFileSystem(
            self,
            "FileSystem",
            file_system_type="OPENZFS",
            storage_type="SSD",
            storage_capacity=openzfs.capacity_gib,
            subnet_ids=[subnet.subnet_id],
            security_group_ids=[security_group.security_group_id],
            open_zfs_configuration=fsx.CfnFileSystem.OpenZFSConfigurationProperty(
                deployment_type=openzfs.deployment,
                throughput_capacity=openzfs.throughput,
                weekly_maintenance_start_time=openzfs.maintenance_window,
                automatic_backup_retention_days=openzfs.backups.days,
                daily_automatic_backup_start_time=openzfs.backups.window if backed_up else None,
                copy_tags_to_backups=True if backed_up else None,
                copy_tags_to_volumes=True,
                options=options,
                root_volume_configuration=fsx.CfnFileSystem.RootVolumeConfigurationProperty(
                    read_only=True,
                    data_compression_type="LZ4",
                    nfs_exports=[fsx.CfnFileSystem.NfsExportsProperty(client_configurations=[read_only])],
                ),
            ),
            tags=[CfnTag(key="Name", value=f"{stack_name}-{openzfs.name}")],
        )
        retain(file_system, kept=kept)
        self.file_system_id = file_system.ref
        self.dns_name = file_system.attr_dns_name

        root_volume = file_system.attr_root_volume_id
        clients = fsx.CfnVolume.ClientConfigurationsProperty(
            clients=vpc_cidr, options=["rw", "crossmnt", "sync", "no_root_squash"]
        )
        quotas = [
            fsx.CfnVolume.UserAndGroupQuotasProperty(type="USER", id=uid, storage_capacity_quota_gib=quota)
            for uid, quota in (home_quotas or {}).items()
        ]
        self.volume_ids = {}
        for volume in openzfs.volumes:
            resource = fsx.CfnVolume(
                self,
                f"Volume-{volume.name}",
                # A volume's name takes letters, digits and underscores only (FSx for OpenZFS guide, creating a volume).
                name=volume.name.replace("-", "_"),
                volume_type="OPENZFS",
                open_zfs_configuration=fsx.CfnVolume.OpenZFSConfigurationProperty(
                    parent_volume_id=root_volume,
                    data_compression_type=volume.compression.upper(),
                    storage_capacity_quota_gib=volume.quota_gib,
                    copy_tags_to_snapshots=True,
                    options=options,
                    nfs_exports=[fsx.CfnVolume.NfsExportsProperty(client_configurations=[clients])],
                    user_and_group_quotas=quotas if volume.mount == "/home" and quotas else None,
                ),
                tags=[CfnTag(key="Name", value=f"{stack_name}-{volume.name}")],
            )
            retain(resource, kept=kept)
            self.volume_ids[volume.name] = resource.attr_volume_id

"""FSx for Lustre file systems."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import ArnFormat, Stack, Tags
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_logs as logs
from constructs import Construct

from settings.model.storage import Lustre
from trainyard.retention import retain

# The newest that FSx offers, and the only one with configurable metadata performance.
_LUSTRE_VERSION = "2.15"


class LustreFileSystem(Construct):
    """One FSx for Lustre file system: PERSISTENT_2, SSD, encrypted with the account's key of FSx.

    Warnings and errors, including those of imports from and exports to S3, go to `log_group`, whose name must begin
    with /aws/fsx/.
    """

    file_system_id: str
    dns_name: str

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        lustre: Lustre,
        subnet: ec2.ISubnet,
        security_groups: Sequence[ec2.ISecurityGroup],
        log_group: logs.ILogGroup,
        kept: bool = True,
    ) -> None:
        super().__init__(scope, construct_id)
        backed_up = lustre.backups.days > 0
        file_system = fsx.CfnFileSystem(
            self,
            "FileSystem",
            file_system_type="LUSTRE",
            file_system_type_version=_LUSTRE_VERSION,
            storage_type="SSD",
            storage_capacity=lustre.capacity_gib,
            subnet_ids=[subnet.subnet_id],
            security_group_ids=[group.security_group_id for group in security_groups],
            lustre_configuration=fsx.CfnFileSystem.LustreConfigurationProperty(
                deployment_type="PERSISTENT_2",
                per_unit_storage_throughput=lustre.throughput,
                data_compression_type=lustre.compression.upper(),
                efa_enabled=lustre.efa,
                metadata_configuration=_metadata(lustre),
                weekly_maintenance_start_time=lustre.maintenance_window,
                automatic_backup_retention_days=lustre.backups.days,
                daily_automatic_backup_start_time=lustre.backups.window if backed_up else None,
                copy_tags_to_backups=True if backed_up else None,
                log_configuration=fsx.CfnFileSystem.LogConfigurationProperty(
                    level="WARN_ERROR", destination=_log_group_arn(log_group)
                ),
            ),
        )
        retain(file_system, kept=kept)
        Tags.of(file_system).add("Name", f"{Stack.of(self).stack_name}-{lustre.name}")
        self.file_system_id = file_system.ref
        self.dns_name = file_system.attr_dns_name


def _metadata(lustre: Lustre) -> fsx.CfnFileSystem.MetadataConfigurationProperty:
    if lustre.metadata_iops is None:
        return fsx.CfnFileSystem.MetadataConfigurationProperty(mode="AUTOMATIC")
    return fsx.CfnFileSystem.MetadataConfigurationProperty(mode="USER_PROVISIONED", iops=lustre.metadata_iops)


def _log_group_arn(log_group: logs.ILogGroup) -> str:
    """FSx takes the ARN of the group without the `:*` of its streams."""
    return Stack.of(log_group).format_arn(
        service="logs",
        resource="log-group",
        resource_name=log_group.log_group_name,
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )

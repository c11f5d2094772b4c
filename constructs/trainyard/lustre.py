"""FSx for Lustre file systems, and the folders of theirs that are linked to prefixes of buckets."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import ArnFormat, CfnTag, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from constructs import Construct

from settings.model.storage import Association, Lustre
from trainyard.retention import retain


class LustreFileSystem(Construct):
    """One FSx for Lustre file system on SSD, encrypted with the account's key of FSx.

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
        security_group: ec2.ISecurityGroup,
        log_group: logs.ILogGroup,
        kept: bool,
    ) -> None:
        super().__init__(scope, construct_id)
        stack = Stack.of(self)
        persistent, newest = lustre.deployment != "SCRATCH_2", lustre.deployment == "PERSISTENT_2"
        mode = "AUTOMATIC" if lustre.metadata_iops is None else "USER_PROVISIONED"
        metadata = fsx.CfnFileSystem.MetadataConfigurationProperty(mode=mode, iops=lustre.metadata_iops)
        # FSx takes the ARN of the group without the `:*` of its streams.
        log_group_arn = stack.format_arn(
            service="logs",
            resource="log-group",
            resource_name=log_group.log_group_name,
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        file_system = fsx.CfnFileSystem(
            self,
            "FileSystem",
            file_system_type="LUSTRE",
            # The newest that FSx offers, for all deployment types.
            file_system_type_version="2.15",
            storage_type="SSD",
            storage_capacity=lustre.capacity_gib,
            subnet_ids=[subnet.subnet_id],
            security_group_ids=[security_group.security_group_id],
            lustre_configuration=fsx.CfnFileSystem.LustreConfigurationProperty(
                deployment_type=lustre.deployment,
                # FSx refuses what does not belong to the deployment type. A scratch file system's throughput is fixed.
                per_unit_storage_throughput=lustre.throughput if persistent else None,
                data_compression_type=lustre.compression.upper(),
                efa_enabled=lustre.efa if newest else None,
                metadata_configuration=metadata if newest else None,
                weekly_maintenance_start_time=lustre.maintenance_window,
                # FSx backs up no linked file system, and took an update with this property as a fault:
                # https://github.com/aws-cloudformation/cloudformation-coverage-roadmap/issues/1687
                automatic_backup_retention_days=lustre.backups.days if persistent and not lustre.associations else None,
                # No CopyTagsToBackups: with it, CloudFormation would replace a file system that gets its first backups.
                daily_automatic_backup_start_time=lustre.backups.window if lustre.backups.days else None,
                log_configuration=fsx.CfnFileSystem.LogConfigurationProperty(
                    level="WARN_ERROR", destination=log_group_arn
                ),
            ),
            tags=[CfnTag(key="Name", value=f"{stack.stack_name}-{lustre.name}")],
        )
        retain(file_system, kept=kept)
        self.file_system_id = file_system.ref
        self.dns_name = file_system.attr_dns_name


class DataRepositoryAssociations(Construct):
    """The associations of one file system, created one after the other.

    Two at the same time end as FAILED: hashicorp/terraform-provider-aws issue 24678. Deleting an association leaves the
    content of folder and bucket.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        lustre: Lustre,
        file_system_id: str,
        buckets: Mapping[str, s3.IBucket],
    ) -> None:
        super().__init__(scope, construct_id)
        # Another bucket exists outside of the environment: s3://NAME.
        names = {purpose: bucket.bucket_name for purpose, bucket in buckets.items()}
        prefix = f"{Stack.of(self).stack_name}-{lustre.name}"
        previous: fsx.CfnDataRepositoryAssociation | None = None
        # Sorted: the order in the file may change.
        for association in sorted(lustre.associations, key=lambda item: item.path):
            bucket = names.get(association.bucket, association.bucket.removeprefix("s3://"))
            resource = fsx.CfnDataRepositoryAssociation(
                self,
                # By folder, which identifies an association.
                association.path.strip("/").replace("/", ":") or "Root",
                file_system_id=file_system_id,
                file_system_path=association.path,
                data_repository_path=f"s3://{bucket}/{association.prefix}",
                # Imports the names of existing objects; their content is read on first access.
                batch_import_meta_data_on_create=bool(association.import_events),
                s3=_policies(association),
                tags=[CfnTag(key="Name", value=f"{prefix}{association.path}")],
            )
            if previous is not None:
                resource.add_resource_dependency(previous)
            previous = resource


def _policies(association: Association) -> fsx.CfnDataRepositoryAssociation.S3Property | None:
    events = fsx.CfnDataRepositoryAssociation
    imported = [event.upper() for event in association.import_events]
    exported = [event.upper() for event in association.export_events]
    if not (imported or exported):
        return None
    return events.S3Property(
        auto_import_policy=events.AutoImportPolicyProperty(events=imported) if imported else None,
        auto_export_policy=events.AutoExportPolicyProperty(events=exported) if exported else None,
    )

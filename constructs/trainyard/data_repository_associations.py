"""Data repository associations: folders of a Lustre file system linked to prefixes of a bucket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import Stack, Tags
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_s3 as s3
from constructs import Construct

from settings.model.storage import Association, BucketPurpose, Event, Lustre


class DataRepositoryAssociations(Construct):
    """The associations of one file system. Deleting an association leaves the content of folder and bucket."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        lustre: Lustre,
        file_system_id: str,
        buckets: Mapping[BucketPurpose, s3.IBucket],
    ) -> None:
        super().__init__(scope, construct_id)
        names = {purpose: bucket.bucket_name for purpose, bucket in buckets.items()}
        prefix = f"{Stack.of(self).stack_name}-{lustre.name}"
        for association in lustre.associations:
            resource = fsx.CfnDataRepositoryAssociation(
                self,
                _construct_id(association),
                file_system_id=file_system_id,
                file_system_path=association.path,
                data_repository_path=f"s3://{names[association.bucket]}/{association.prefix}",
                # Imports the names of existing objects; their content is read on first access.
                batch_import_meta_data_on_create=bool(association.import_events),
                s3=_policies(association),
            )
            Tags.of(resource).add("Name", f"{prefix}{association.path}")


def _construct_id(association: Association) -> str:
    """By folder, which identifies an association: the order in the file may change."""
    return association.path.strip("/").replace("/", ":") or "Root"


def _policies(association: Association) -> fsx.CfnDataRepositoryAssociation.S3Property | None:
    if not (association.import_events or association.export_events):
        return None
    return fsx.CfnDataRepositoryAssociation.S3Property(
        auto_import_policy=(
            fsx.CfnDataRepositoryAssociation.AutoImportPolicyProperty(events=_events(association.import_events))
            if association.import_events
            else None
        ),
        auto_export_policy=(
            fsx.CfnDataRepositoryAssociation.AutoExportPolicyProperty(events=_events(association.export_events))
            if association.export_events
            else None
        ),
    )


def _events(events: Sequence[Event]) -> list[str]:
    return [event.upper() for event in events]

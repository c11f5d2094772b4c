"""The stack that links Lustre folders to bucket prefixes. The cluster does not wait for it."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import aws_s3 as s3
from constructs import Construct

from settings.model import Environment
from settings.model.storage import BucketPurpose
from stacks.environment_stack import EnvironmentStack
from trainyard.buckets import Buckets
from trainyard.data_repository_associations import DataRepositoryAssociations
from trainyard.lustre import LustreFileSystem


class DataLinksStack(EnvironmentStack):
    """The data repository associations of all Lustre file systems, `links` by file system name."""

    links: Mapping[str, DataRepositoryAssociations]

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
        buckets: Buckets,
        lustre: Mapping[str, LustreFileSystem],
    ) -> None:
        super().__init__(
            scope,
            "data-links",
            environment=environment,
            holds="Lustre folders tied to bucket prefixes",
        )
        by_purpose: dict[BucketPurpose, s3.IBucket] = {
            "data": buckets.data,
            "checkpoints": buckets.checkpoints,
        }
        self.links = {
            settings.name: DataRepositoryAssociations(
                self,
                settings.name,
                lustre=settings,
                file_system_id=lustre[settings.name].file_system_id,
                buckets=by_purpose,
            )
            for settings in environment.storage.lustre
            if settings.associations
        }

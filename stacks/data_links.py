"""The stack that ties Lustre folders to bucket prefixes. It stands beside the cluster, which need not wait for it."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Environment as CdkEnvironment
from aws_cdk import Stack
from aws_cdk import aws_s3 as s3
from constructs import Construct

from settings.model import Environment
from settings.model.storage import BucketPurpose
from trainyard.buckets import Buckets
from trainyard.data_links import DataLinks
from trainyard.lustre import LustreFileSystem


class DataLinksStack(Stack):
    """The data repository associations of all Lustre file systems, `links` by file system name."""

    links: Mapping[str, DataLinks]

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: Environment,
        buckets: Buckets,
        lustre: Mapping[str, LustreFileSystem],
        env: CdkEnvironment | None = None,
        stack_name: str | None = None,
        description: str | None = None,
        termination_protection: bool | None = None,
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            env=env,
            stack_name=stack_name,
            description=description,
            termination_protection=termination_protection,
        )
        by_purpose: dict[BucketPurpose, s3.IBucket] = {
            "data": buckets.data,
            "checkpoints": buckets.checkpoints,
        }
        self.links = {
            settings.name: DataLinks(
                self,
                settings.name,
                lustre=settings,
                file_system_id=lustre[settings.name].file_system_id,
                buckets=by_purpose,
            )
            for settings in environment.storage.lustre
            if settings.associations
        }

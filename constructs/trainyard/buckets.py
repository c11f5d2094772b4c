"""The buckets of an environment: data sets, checkpoints with results, and cluster assets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_s3 as s3
from constructs import Construct

from settings.lifecycle import Expiring, days
from settings.model.storage import Buckets as BucketSettings
from trainyard.nag import acknowledge
from trainyard.retention import retain

Retention = Literal["keep", "delete-if-empty", "delete-with-data"]


class Buckets(Construct):
    """Data, checkpoint and asset buckets, and one for their access logs.

    All are private, encrypted with keys of S3 (docs/decisions says why) and accept TLS only. All but the access logs
    are versioned: a deletion that a file system exports automatically can be undone for `noncurrent_days`. Assets and
    access logs hold no user data: unless buckets are kept, these two are deleted with their content.

    Args:
        buckets: the settings.
        retention: what happens to the buckets when the stack is deleted.
        expiring: the prefixes of the checkpoint bucket whose objects expire. Data sets never do.
    """

    data: s3.IBucket
    checkpoints: s3.IBucket
    assets: s3.IBucket

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        buckets: BucketSettings,
        retention: Retention,
        expiring: Sequence[Expiring],
    ) -> None:
        super().__init__(scope, construct_id)
        # A bucket without ACLs can receive access logs only through a bucket policy.
        self.node.set_context("@aws-cdk/aws-s3:serverAccessLogsUseBucketPolicy", True)
        self._settings, self._retention = buckets, retention
        expire_access_logs = s3.LifecycleRule(id="expire access logs", expiration=Duration.days(90))
        logs = self._bucket("AccessLogs", rules=[expire_access_logs], logs=None)
        own_logs = "This bucket receives the access logs of the others; logging accesses to it into itself never ends."
        acknowledge(logs, {"AwsSolutions-S1": own_logs})
        noncurrent = s3.LifecycleRule(
            id="expire noncurrent versions",
            noncurrent_version_expiration=Duration.days(buckets.noncurrent_days),
            expired_object_delete_marker=True,
        )
        kept = [noncurrent, *_tiering(buckets.intelligent_tiering_days)]
        self.data = self._bucket("Data", rules=kept, logs=logs)
        self.checkpoints = self._bucket("Checkpoints", rules=[*self._expiry(expiring), *kept], logs=logs)
        self.assets = self._bucket("Assets", rules=[noncurrent], logs=logs)

    def _bucket(self, construct_id: str, *, rules: Sequence[s3.LifecycleRule], logs: s3.IBucket | None) -> s3.Bucket:
        name = "access-logs" if logs is None else construct_id.lower()
        prefix, retention = self._settings.name_prefix, self._retention
        emptied = retention == "delete-with-data" or (
            retention == "delete-if-empty" and construct_id not in ("Data", "Checkpoints")
        )
        unfinished = s3.LifecycleRule(
            id="abort unfinished uploads", abort_incomplete_multipart_upload_after=Duration.days(7)
        )
        bucket = private_bucket(
            self,
            construct_id,
            bucket_name=f"{prefix}-{name}" if prefix else None,
            encryption=s3.BucketEncryption.S3_MANAGED,
            versioned=logs is not None,
            server_access_logs_bucket=logs,
            server_access_logs_prefix=f"{name}/" if logs is not None else None,
            lifecycle_rules=[*rules, unfinished],
            removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if retention == "keep" else RemovalPolicy.DESTROY,
            auto_delete_objects=emptied,
        )
        # auto_delete_objects also empties a bucket that an update replaces: there is nothing left to keep.
        if not emptied:
            retain(bucket.node.default_child, kept=retention == "keep")
        return bucket

    def _expiry(self, prefixes: Sequence[Expiring]) -> list[s3.LifecycleRule]:
        return [
            s3.LifecycleRule(
                id=f"expire {item.kind} under {item.prefix}",
                prefix=item.prefix,
                expiration=Duration.days(days(self._settings, item.kind)),
            )
            for item in prefixes
        ]


def private_bucket(scope: Construct, construct_id: str, **properties: Any) -> s3.Bucket:  # noqa: ANN401 - of s3.Bucket
    """A bucket that is never public, has no ACLs and accepts TLS only."""
    return s3.Bucket(
        scope,
        construct_id,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        enforce_ssl=True,
        minimum_tls_version=1.2,
        object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
        **properties,
    )


def _tiering(days: int | None) -> list[s3.LifecycleRule]:
    """Objects that are that old are data sets or results: read rarely, but needed at once."""
    if days is None:
        return []
    transition = s3.Transition(storage_class=s3.StorageClass.INTELLIGENT_TIERING, transition_after=Duration.days(days))
    return [s3.LifecycleRule(id="tier what stays", transitions=[transition])]

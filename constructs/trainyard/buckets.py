"""The buckets of an environment: data sets, checkpoints with results, and cluster assets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, cast

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_s3 as s3
from constructs import Construct

from settings.model.storage import BucketPurpose
from settings.model.storage import Buckets as BucketSettings
from trainyard.lifecycle import Expiring, Kind
from trainyard.nag import acknowledge
from trainyard.retention import retain

Retention = Literal["keep", "delete-if-empty", "delete-with-data"]

TEMPORARY_DAYS = 7
ACCESS_LOG_DAYS = 90


class Buckets(Construct):
    """Data, checkpoint and asset buckets, and one for their access logs.

    All are private, encrypted with keys of S3 (docs/decisions says why) and accept TLS only. All but the access logs
    are versioned: a deletion that a file system exports automatically can be undone for `noncurrent_days`. Assets and
    access logs hold no user data: unless buckets are kept, these two are deleted with their content.

    Args:
        buckets: the settings.
        retention: what happens to the buckets when the stack is deleted.
        expiring: the prefixes of each bucket whose objects expire.
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
        expiring: Mapping[BucketPurpose, Sequence[Expiring]],
    ) -> None:
        super().__init__(scope, construct_id)
        # A bucket without ACLs can receive access logs only through a bucket policy.
        self.node.set_context("@aws-cdk/aws-s3:serverAccessLogsUseBucketPolicy", True)
        self._settings, self._retention = buckets, retention
        logs = self._bucket("AccessLogs", rules=[_expire_access_logs()], logs=None)
        acknowledge(
            logs,
            "AwsSolutions-S1",
            "This bucket receives the access logs of the others; logging accesses to it into itself would never end.",
        )
        kept = [_noncurrent(buckets), *_tiering(buckets)]
        self.data = self._bucket("Data", rules=[*self._expiry(expiring["data"]), *kept], logs=logs)
        self.checkpoints = self._bucket("Checkpoints", rules=[*self._expiry(expiring["checkpoints"]), *kept], logs=logs)
        self.assets = self._bucket("Assets", rules=[_noncurrent(buckets)], logs=logs)

    def _bucket(self, construct_id: str, *, rules: Sequence[s3.LifecycleRule], logs: s3.IBucket | None) -> s3.Bucket:
        name = {"AccessLogs": "access-logs"}.get(construct_id, construct_id.lower())
        prefix, retention = self._settings.name_prefix, self._retention
        emptied = retention == "delete-with-data" or (
            retention == "delete-if-empty" and construct_id not in ("Data", "Checkpoints")
        )
        bucket = s3.Bucket(
            self,
            construct_id,
            bucket_name=f"{prefix}-{name}" if prefix else None,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            versioned=logs is not None,
            server_access_logs_bucket=logs,
            server_access_logs_prefix=f"{name}/" if logs is not None else None,
            lifecycle_rules=[*rules, _unfinished_uploads()],
            removal_policy=RemovalPolicy.RETAIN if retention == "keep" else RemovalPolicy.DESTROY,
            auto_delete_objects=emptied,
        )
        # auto_delete_objects also empties a bucket that an update replaces: there is nothing left to keep.
        if not emptied:
            retain(cast(s3.CfnBucket, bucket.node.default_child), kept=retention == "keep")
        return bucket

    def _expiry(self, prefixes: Sequence[Expiring]) -> list[s3.LifecycleRule]:
        days: dict[Kind, int] = {
            "checkpoints": self._settings.checkpoint_days,
            "logs": self._settings.log_days,
            "temporary": TEMPORARY_DAYS,
        }
        return [
            s3.LifecycleRule(
                id=f"expire {item.kind} under {item.prefix}",
                prefix=item.prefix,
                expiration=Duration.days(days[item.kind]),
            )
            for item in prefixes
        ]


def _expire_access_logs() -> s3.LifecycleRule:
    return s3.LifecycleRule(id="expire access logs", expiration=Duration.days(ACCESS_LOG_DAYS))


def _noncurrent(settings: BucketSettings) -> s3.LifecycleRule:
    return s3.LifecycleRule(
        id="expire noncurrent versions",
        noncurrent_version_expiration=Duration.days(settings.noncurrent_days),
        expired_object_delete_marker=True,
    )


def _tiering(settings: BucketSettings) -> list[s3.LifecycleRule]:
    """Objects that are that old are data sets or results: read rarely, but needed at once."""
    if settings.intelligent_tiering_days is None:
        return []
    return [
        s3.LifecycleRule(
            id="tier what stays",
            transitions=[
                s3.Transition(
                    storage_class=s3.StorageClass.INTELLIGENT_TIERING,
                    transition_after=Duration.days(settings.intelligent_tiering_days),
                )
            ],
        )
    ]


def _unfinished_uploads() -> s3.LifecycleRule:
    return s3.LifecycleRule(id="abort unfinished uploads", abort_incomplete_multipart_upload_after=Duration.days(7))

"""The buckets of an environment: data sets, checkpoints and results, and what the cluster reads at its start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_s3 as s3
from constructs import Construct

from settings.model import Environment
from settings.model.storage import BucketPurpose
from settings.model.storage import Buckets as BucketSettings
from trainyard.lifecycle import Kind, expiring
from trainyard.nag import acknowledge
from trainyard.retention import retain

TEMPORARY_DAYS = 7
ACCESS_LOG_DAYS = 90


class Buckets(Construct):
    """Data, checkpoint and asset buckets, and one for their access logs.

    All are private, encrypted with keys of S3 and reached by TLS only. Those with content are versioned: a deletion
    that a file system exports by itself can be taken back for `noncurrent_days`. docs/decisions says why the keys are
    S3's. Assets and access logs are no one's data: where buckets are not kept, these two go with their content.
    """

    data: s3.IBucket
    checkpoints: s3.IBucket
    assets: s3.IBucket
    access_logs: s3.IBucket

    def __init__(self, scope: Construct, construct_id: str, *, environment: Environment) -> None:
        super().__init__(scope, construct_id)
        # Access logs are delivered to a bucket without ACLs only by a bucket policy.
        self.node.set_context("@aws-cdk/aws-s3:serverAccessLogsUseBucketPolicy", True)
        self._environment = environment
        settings = environment.storage.buckets
        logs = self._bucket("AccessLogs", rules=[_expire_access_logs()], logs=None)
        acknowledge(
            logs,
            "AwsSolutions-S1",
            "This bucket receives the access logs of the others; logging accesses to it into itself would never end.",
        )
        kept = [_noncurrent(settings), *_tiering(settings)]
        self.access_logs = logs
        self.data = self._bucket("Data", rules=[*self._expiry("data"), *kept], logs=logs)
        self.checkpoints = self._bucket("Checkpoints", rules=[*self._expiry("checkpoints"), *kept], logs=logs)
        self.assets = self._bucket("Assets", rules=[_noncurrent(settings)], logs=logs)

    def _bucket(self, construct_id: str, *, rules: Sequence[s3.LifecycleRule], logs: s3.IBucket | None) -> s3.Bucket:
        name = {"AccessLogs": "access-logs"}.get(construct_id, construct_id.lower())
        prefix = self._environment.storage.buckets.name_prefix
        retention = self._environment.retention.buckets
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
        # What empties a bucket empties the old one too where an update replaces it, so there is nothing left to keep.
        if not emptied:
            retain(cast(s3.CfnBucket, bucket.node.default_child), kept=retention == "keep")
        return bucket

    def _expiry(self, bucket: BucketPurpose) -> list[s3.LifecycleRule]:
        settings = self._environment.storage.buckets
        days: dict[Kind, int] = {
            "checkpoints": settings.checkpoint_days,
            "logs": settings.log_days,
            "temporary": TEMPORARY_DAYS,
        }
        return [
            s3.LifecycleRule(
                id=f"expire {item.kind} under {item.prefix}",
                prefix=item.prefix,
                expiration=Duration.days(days[item.kind]),
            )
            for item in expiring(self._environment, bucket)
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
    """What is still there after that many days is a data set or a result: it is read seldom, and at once when it is."""
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

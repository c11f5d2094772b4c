"""The bucket of a pipeline's artifacts: assemblies and reports."""

from __future__ import annotations

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from trainyard.nag import acknowledge

ACCESS_LOG_DAYS = 90


class Artifacts(Construct):
    """A bucket, its key, and a bucket for its access logs.

    All are kept when the stack is deleted: the reports document what approvers saw. The key is customer managed because
    roles of other accounts read the assembly, which AWS managed keys do not allow.

    Attributes:
        bucket: the artifact bucket.
        key: encrypts it, and the notifications.
    """

    bucket: s3.Bucket
    key: kms.Key

    def __init__(self, scope: Construct, construct_id: str, *, days: int) -> None:
        """Create the bucket; artifacts expire after `days`."""
        super().__init__(scope, construct_id)
        self.key = kms.Key(
            self,
            "Key",
            description="Artifacts and notifications of a Trainyard pipeline",
            enable_key_rotation=True,
            removal_policy=RemovalPolicy.RETAIN,
        )
        logs = s3.Bucket(
            self,
            "AccessLogs",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            lifecycle_rules=[s3.LifecycleRule(expiration=Duration.days(ACCESS_LOG_DAYS)), _unfinished_uploads()],
            removal_policy=RemovalPolicy.RETAIN,
        )
        acknowledge(
            logs,
            "AwsSolutions-S1",
            "This bucket receives the access logs of the other; logging accesses to it into itself would never end.",
        )
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            encryption=s3.BucketEncryption.KMS,
            encryption_key=self.key,
            # One data key for many objects: CodePipeline creates several objects for each action.
            bucket_key_enabled=True,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            versioned=True,
            server_access_logs_bucket=logs,
            server_access_logs_prefix="artifacts/",
            lifecycle_rules=[
                s3.LifecycleRule(expiration=Duration.days(days), noncurrent_version_expiration=Duration.days(1)),
                _unfinished_uploads(),
            ],
            removal_policy=RemovalPolicy.RETAIN,
        )


def _unfinished_uploads() -> s3.LifecycleRule:
    return s3.LifecycleRule(abort_incomplete_multipart_upload_after=Duration.days(7))

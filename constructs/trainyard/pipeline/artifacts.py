"""The bucket of a pipeline's artifacts: assemblies and reports."""

from __future__ import annotations

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from trainyard.buckets import private_bucket
from trainyard.nag import acknowledge


class Artifacts(Construct):
    """A bucket whose objects expire after `days`, its key, and a bucket for its access logs.

    All are kept when the stack is deleted: the reports document what approvers saw. The key is customer managed because
    roles of other accounts read the assembly, which AWS managed keys do not allow. It also encrypts the notifications.
    """

    bucket: s3.Bucket
    key: kms.Key

    def __init__(self, scope: Construct, construct_id: str, *, days: int) -> None:
        super().__init__(scope, construct_id)
        self.key = kms.Key(
            self,
            "Key",
            description="Artifacts and notifications of a Trainyard pipeline",
            enable_key_rotation=True,
            removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        )
        unfinished = s3.LifecycleRule(abort_incomplete_multipart_upload_after=Duration.days(7))
        logs = private_bucket(
            self,
            "AccessLogs",
            encryption=s3.BucketEncryption.S3_MANAGED,
            lifecycle_rules=[s3.LifecycleRule(expiration=Duration.days(90)), unfinished],
            removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        )
        own_logs = "This bucket receives the access logs of the other; logging accesses to it into itself never ends."
        acknowledge(logs, {"AwsSolutions-S1": own_logs})
        expiry = s3.LifecycleRule(expiration=Duration.days(days), noncurrent_version_expiration=Duration.days(1))
        self.bucket = private_bucket(
            self,
            "Bucket",
            encryption=s3.BucketEncryption.KMS,
            encryption_key=self.key,
            # One data key for many objects: CodePipeline creates several objects for each action.
            bucket_key_enabled=True,
            versioned=True,
            server_access_logs_bucket=logs,
            server_access_logs_prefix="artifacts/",
            lifecycle_rules=[expiry, unfinished],
            removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        )

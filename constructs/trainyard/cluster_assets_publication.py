"""Publishes cluster_assets/ to the assets bucket, under constant keys, with a version that a diff shows."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_deployment as s3_deployment
from constructs import Construct

from settings.model.cluster import Hook
from trainyard import cluster_bundle
from trainyard.cluster_people import PEOPLE
from trainyard.nag import LAMBDA_LOGS_POLICY, acknowledge, wildcard
from trainyard.retention import FunctionLogs


class ClusterAssetsPublication(Construct):
    """Publishes the bundle, the entry script, `current.json` and `settings.json`; `people.json` if there is any.

    Older bundles remain: a node that starts during a publication may still read the pointer to the previous bundle.

    Attributes:
        version: the bundle's SHA-256, from its content alone.
        entry_script: s3:// URI of the script of every custom action.
    """

    version: str
    entry_script: str

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        bucket: s3.IBucket,
        settings: Mapping[str, object],
        hooks: Sequence[Hook],
        logs: FunctionLogs,
        people: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        bundle = cluster_bundle.build(hooks=hooks)
        self.version = bundle.sha256
        self.entry_script = f"s3://{bucket.bucket_name}/{cluster_bundle.PREFIX}/{cluster_bundle.ENTRY}"
        with tempfile.TemporaryDirectory() as folder:
            cluster_bundle.stage(bundle, Path(folder))
            self.deployment = s3_deployment.BucketDeployment(
                self,
                "Deployment",
                destination_bucket=bucket,
                sources=[
                    s3_deployment.Source.asset(folder),
                    s3_deployment.Source.json_data(cluster_bundle.SETTINGS, settings),
                    *([s3_deployment.Source.json_data(PEOPLE, people)] if people else []),
                ],
                prune=False,
                retain_on_delete=True,
                memory_limit=256,
                log_group=logs.group(self),
            )
        # The function of BucketDeployment, which the CDK creates with its permissions.
        stack = cdk.Stack.of(self)
        bootstrap = f"cdk-{stack.synthesizer.bootstrap_qualifier}-assets-{stack.account}-{stack.region}"
        sources = wildcard(self, f"arn:{stack.partition}:s3:::{bootstrap}/*")
        acknowledge(
            stack.node.find_child(_SINGLETON),
            {
                "AwsSolutions-L1": "The runtime of CDK's own function comes with the pinned aws-cdk-lib.",
                LAMBDA_LOGS_POLICY: "The AWS policy by which Lambda functions write their logs.",
                wildcard(self, bucket.bucket_arn, "/*", owner=bucket): "BucketDeployment knows no grant by prefix.",
                **{
                    f"AwsSolutions-IAM5[Action::{action}]": "CDK's grants of read and write on the two buckets."
                    for action in ("s3:Abort*", "s3:DeleteObject*", "s3:GetBucket*", "s3:GetObject*", "s3:List*")
                },
                sources: "Sources are named by their content, so the grant is for the bootstrap's asset bucket.",
            },
        )


# Id of BucketDeployment's function; all deployments of a stack with the same memory size share it.
_SINGLETON = "Custom::CDKBucketDeployment8693BB64968944B69AAFB0CC9EB8756C256MiB"

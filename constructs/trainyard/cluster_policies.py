"""IAM permissions of the cluster's nodes, in addition to those that ParallelCluster grants."""

from __future__ import annotations

from collections.abc import Iterable

from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from trainyard.nag import acknowledge, wildcard_resource

# The API may attach policies of ours only if their ARN has `policy/parallelcluster` (its template, policy
# DefaultParallelClusterIamAdminPolicy); a path does that and leaves the name to CloudFormation.
PATH = "/parallelcluster/"
ASSETS_PREFIX = "cluster/"


class ClusterPolicies(Construct):
    """Managed policies of head, compute and login nodes.

    All nodes pull the environment's images. Users work on head and login nodes, which add objects to both buckets;
    jobs run on compute nodes, which add objects to the checkpoint bucket only. No node deletes objects: lifecycle rules
    do. Head and compute nodes read the buckets through ParallelCluster's S3Access, which login nodes cannot have.
    """

    head: iam.ManagedPolicy
    compute: iam.ManagedPolicy
    login: iam.ManagedPolicy

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        repositories: Iterable[ecr.IRepository],
        data: s3.IBucket,
        checkpoints: s3.IBucket,
        assets: s3.IBucket,
    ) -> None:
        super().__init__(scope, construct_id)
        repositories = list(repositories)
        both = (data, checkpoints)
        self.head = self._policy("Head", "Head node", [*_pull(repositories), _add_objects(*both)])
        self.compute = self._policy("Compute", "Compute nodes", [*_pull(repositories), _add_objects(checkpoints)])
        self.login = self._policy(
            "Login",
            "Login nodes",
            [
                *_pull(repositories),
                _add_objects(*both),
                _list(*both),
                _read(*both),
                _read(assets, prefix=ASSETS_PREFIX),
            ],
        )
        for policy, buckets in ((self.head, both), (self.compute, (checkpoints,)), (self.login, both)):
            for bucket in buckets:
                self._acknowledge_objects(policy, bucket, "/*", "Any object of the bucket: keys are the users' own.")
        prefix = f"/{ASSETS_PREFIX}*"
        self._acknowledge_objects(self.login, assets, prefix, "Bundles are named by their content, so by prefix.")

    def _policy(self, construct_id: str, nodes: str, statements: list[iam.PolicyStatement]) -> iam.ManagedPolicy:
        policy = iam.ManagedPolicy(
            self,
            construct_id,
            path=PATH,
            description=f"{nodes} of the Trainyard cluster: images and buckets",
            statements=statements,
        )
        acknowledge(
            policy,
            "AwsSolutions-IAM5[Resource::*]",
            "ecr:GetAuthorizationToken knows no resources; the pull is limited to the environment's repositories.",
        )
        return policy

    def _acknowledge_objects(self, policy: iam.ManagedPolicy, bucket: s3.IBucket, suffix: str, reason: str) -> None:
        acknowledge(policy, wildcard_resource(self, bucket, bucket.bucket_arn, suffix), reason)


def _pull(repositories: list[ecr.IRepository]) -> list[iam.PolicyStatement]:
    if not repositories:
        return []
    return [
        iam.PolicyStatement(sid="ImageLogin", actions=["ecr:GetAuthorizationToken"], resources=["*"]),
        iam.PolicyStatement(
            sid="ImagePull",
            actions=[
                "ecr:BatchCheckLayerAvailability",
                "ecr:BatchGetImage",
                "ecr:DescribeImages",
                "ecr:GetDownloadUrlForLayer",
            ],
            resources=[repository.repository_arn for repository in repositories],
        ),
    ]


def _add_objects(*buckets: s3.IBucket) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        sid="AddObjects",
        actions=["s3:AbortMultipartUpload", "s3:ListMultipartUploadParts", "s3:PutObject"],
        resources=[bucket.arn_for_objects("*") for bucket in buckets],
    )


def _list(*buckets: s3.IBucket) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        sid="ListBuckets",
        actions=["s3:GetBucketLocation", "s3:ListBucket"],
        resources=[bucket.bucket_arn for bucket in buckets],
    )


def _read(*buckets: s3.IBucket, prefix: str = "") -> iam.PolicyStatement:
    return iam.PolicyStatement(
        actions=["s3:GetObject"], resources=[bucket.arn_for_objects(f"{prefix}*") for bucket in buckets]
    )

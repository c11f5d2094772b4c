"""IAM permissions of the cluster's nodes, in addition to those that ParallelCluster grants."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from trainyard.buckets import Buckets
from trainyard.nag import ANY_RESOURCE, acknowledge, wildcard

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
        buckets: Buckets,
        topic_arns: Sequence[str] = (),
    ) -> None:
        """Args: topic_arns: the topics to which the head node publishes; they need not exist yet."""
        super().__init__(scope, construct_id)
        self._pull = _pull([repository.repository_arn for repository in repositories])
        both = [buckets.data, buckets.checkpoints]
        mails = (
            [iam.PolicyStatement(sid="PublishMails", actions=["sns:Publish"], resources=[*topic_arns])]
            if topic_arns
            else []
        )
        self.head = self._policy("Head", "Head node", both, mails)
        self.compute = self._policy("Compute", "Compute nodes", [buckets.checkpoints])
        own = [
            iam.PolicyStatement(
                sid="ListBuckets",
                actions=["s3:GetBucketLocation", "s3:ListBucket"],
                resources=[bucket.bucket_arn for bucket in both],
            ),
            iam.PolicyStatement(actions=["s3:GetObject"], resources=_objects(both)),
            iam.PolicyStatement(actions=["s3:GetObject"], resources=_objects([buckets.assets], ASSETS_PREFIX)),
        ]
        self.login = self._policy("Login", "Login nodes", both, own)
        bundles = wildcard(self, buckets.assets.bucket_arn, f"/{ASSETS_PREFIX}*", owner=buckets.assets)
        acknowledge(self.login, {bundles: "Bundles are named by their content, so by prefix."})

    def _policy(
        self, construct_id: str, nodes: str, adds_to: list[s3.IBucket], more: Iterable[iam.PolicyStatement] = ()
    ) -> iam.ManagedPolicy:
        add_objects = iam.PolicyStatement(
            sid="AddObjects",
            actions=["s3:AbortMultipartUpload", "s3:ListMultipartUploadParts", "s3:PutObject"],
            resources=_objects(adds_to),
        )
        policy = iam.ManagedPolicy(
            self,
            construct_id,
            # The API may attach policies of ours only if their ARN has `policy/parallelcluster` (its template, policy
            # DefaultParallelClusterIamAdminPolicy); a path does that and leaves the name to CloudFormation.
            path="/parallelcluster/",
            description=f"{nodes} of the Trainyard cluster: images and buckets",
            statements=[*self._pull, add_objects, *more],
        )
        any_object = "Any object of the bucket: keys are the users' own."
        acknowledge(
            policy,
            {
                ANY_RESOURCE: "ecr:GetAuthorizationToken takes no ARN; the pull is limited to the environment's "
                "repositories.",
                **{wildcard(self, bucket.bucket_arn, "/*", owner=bucket): any_object for bucket in adds_to},
            },
        )
        return policy


def _pull(repositories: list[str]) -> list[iam.PolicyStatement]:
    if not repositories:
        return []
    pull = ["BatchCheckLayerAvailability", "BatchGetImage", "DescribeImages", "GetDownloadUrlForLayer"]
    return [
        iam.PolicyStatement(sid="ImageLogin", actions=["ecr:GetAuthorizationToken"], resources=["*"]),
        iam.PolicyStatement(sid="ImagePull", actions=[f"ecr:{action}" for action in pull], resources=repositories),
    ]


def _objects(buckets: list[s3.IBucket], prefix: str = "") -> list[str]:
    return [bucket.arn_for_objects(f"{prefix}*") for bucket in buckets]

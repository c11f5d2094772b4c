"""Endpoint policies of a network without internet access: what nodes may reach through its VPC endpoints.

Sources: aws-samples/data-perimeter-policy-examples at 8e0d3c5 (18 March 2026), vpc_endpoint_policies/ and
service_owned_resources.md; AWS ParallelCluster guide, "AWS ParallelCluster in a single subnet with no internet access",
the note on restricted S3 endpoints; ParallelCluster 3.16.1, templates/cdk_builder_utils.py, the policies of its nodes.
"""

from __future__ import annotations

from aws_cdk import Aws, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

_READ_BUCKETS = (
    "{region}-aws-parallelcluster",
    # Layers of ECR's images.
    "prod-{region}-starport-layer-bucket",
    # Installation and updates of the SSM Agent, and its plugins.
    "amazon-ssm-{region}",
    "amazon-ssm-packages-{region}",
    "aws-ssm-{region}",
    "aws-ssm-document-attachments-{region}",
    "{region}-birdwatcher-prod",
    "patch-baseline-snapshot-{region}",
    # Packages of Amazon Linux 2023. The other operating systems have no repository in S3.
    "al2023-repos-{region}-de612dc2",
    "al2023-{region}",
)
"""Buckets of AWS that nodes read, some of them without credentials."""


def endpoint_policy(scope: Construct, service: str) -> list[iam.PolicyStatement]:
    """The statements for the endpoint of `service`, by the last part of its name, for example `s3` or `ecr.api`.

    Principals of the stack's account reach resources of this account, so that a node cannot copy data to a bucket of
    another account, nor use another account's keys. What AWS owns is excepted as far as nodes need it.
    """
    stack = Stack.of(scope)
    own = {"aws:PrincipalAccount": stack.account}

    def allow(actions: list[str], resources: list[str], conditions: dict[str, object] | None = None) -> None:
        arns = [resource.replace("{partition}", Aws.PARTITION) for resource in resources]
        # Gateway endpoints accept no other principal (AWS PrivateLink guide, "Principals for gateway endpoints").
        star = [iam.StarPrincipal()]
        statements.append(
            iam.PolicyStatement(actions=actions, resources=arns, principals=star, conditions=conditions or {})
        )

    statements: list[iam.PolicyStatement] = []
    if service == "cloudformation":
        # cfn-init signs with the instance's identity document, not as a principal: the stack's ARN is the limit.
        allow(["cloudformation:*"], [f"arn:{{partition}}:cloudformation:{stack.region}:{stack.account}:*"])
        return statements
    if service == "sts":
        # A role of another account is of no use here: the other endpoints refuse its credentials.
        allow(["*"], ["*"], {"StringEquals": own})
        return statements
    allow(["*"], ["*"], {"StringEquals": {**own, "aws:ResourceAccount": stack.account}})
    if service == "s3":
        buckets = [name.format(region=stack.region) for name in _READ_BUCKETS]
        allow(["s3:GetObject"], [f"arn:{{partition}}:s3:::{bucket}/*" for bucket in buckets])
        # The head node reports its start to ParallelCluster's wait condition, by a URL that CloudFormation signed.
        allow(["s3:PutObject"], [f"arn:{{partition}}:s3:::cloudformation-waitcondition-{stack.region}/*"])
    elif service == "ec2":
        # Images belong to AWS, and a reservation may be shared by another account.
        allow(
            ["ec2:CreateFleet", "ec2:RunInstances"],
            ["arn:{partition}:ec2:*::image/*", "arn:{partition}:ec2:*:*:capacity-reservation/*"],
            {"StringEquals": own},
        )
    elif service == "ssm":
        allow(
            ["ssm:Describe*", "ssm:Get*", "ssm:List*"],
            [f"arn:{{partition}}:ssm:{stack.region}::{what}/*" for what in ("document", "parameter/aws")],
            {"StringEquals": own},
        )
    return statements

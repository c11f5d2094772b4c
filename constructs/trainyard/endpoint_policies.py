"""Endpoint policies of a network without internet access: what nodes may reach through its VPC endpoints.

Sources: aws-samples/data-perimeter-policy-examples at 8e0d3c5 (18 March 2026), vpc_endpoint_policies/ and
service_owned_resources.md; AWS ParallelCluster guide, "AWS ParallelCluster in a single subnet with no internet access",
the note on restricted S3 endpoints; ParallelCluster 3.16.1, templates/cdk_builder_utils.py, the policies of its nodes.
"""

from __future__ import annotations

from aws_cdk import Aws, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

# Actions, resources, and the values of condition keys.
_Allowed = tuple[list[str], list[str], dict[str, str]]

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
    arn, region, account = f"arn:{Aws.PARTITION}", stack.region, stack.account
    caller = {"aws:PrincipalAccount": account}
    own: _Allowed = (["*"], ["*"], {**caller, "aws:ResourceAccount": account})
    special: dict[str, list[_Allowed]] = {
        # Requests have a token of Grafana's and no principal, so that a policy would refuse all of them.
        "grafana-workspace": [],
        # cfn-init signs with the instance's identity document, not as a principal: the stack's ARN is the limit.
        "cloudformation": [(["cloudformation:*"], [f"{arn}:cloudformation:{region}:{account}:*"], {})],
        # A role of another account is of no use here: the other endpoints refuse its credentials.
        "sts": [(["*"], ["*"], caller)],
        "s3": [
            own,
            (["s3:GetObject"], [f"{arn}:s3:::{bucket.format(region=region)}/*" for bucket in _READ_BUCKETS], {}),
            # The head node reports its start to ParallelCluster's wait condition, by a URL that CloudFormation signed.
            (["s3:PutObject"], [f"{arn}:s3:::cloudformation-waitcondition-{region}/*"], {}),
        ],
        "ec2": [
            own,
            # Images belong to AWS, and a reservation may be shared by another account.
            (
                ["ec2:CreateFleet", "ec2:RunInstances"],
                [f"{arn}:ec2:*::image/*", f"{arn}:ec2:*:*:capacity-reservation/*"],
                caller,
            ),
        ],
        "ssm": [
            own,
            (
                ["ssm:Describe*", "ssm:Get*", "ssm:List*"],
                [f"{arn}:ssm:{region}::document/*", f"{arn}:ssm:{region}::parameter/aws/*"],
                caller,
            ),
        ],
    }
    # Gateway endpoints accept no other principal (AWS PrivateLink guide, "Principals for gateway endpoints").
    return [
        iam.PolicyStatement(
            actions=actions,
            resources=resources,
            principals=[iam.StarPrincipal()],
            conditions={"StringEquals": equal} if equal else {},
        )
        for actions, resources, equal in special.get(service, [own])
    ]

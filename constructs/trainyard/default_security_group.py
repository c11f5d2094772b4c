"""A VPC's default security group, closed."""

from __future__ import annotations

from typing import cast

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import custom_resources as cr
from constructs import Construct, IConstruct

from trainyard.nag import acknowledge


class ClosedDefaultSecurityGroup(Construct):
    """Takes the default group's two rules away, so that what is started without a group of its own reaches nothing.

    Neither EC2 nor CloudFormation can make a VPC without these rules, hence the two API calls. They go with the VPC.
    """

    def __init__(self, scope: Construct, construct_id: str, *, group_id: str) -> None:
        super().__init__(scope, construct_id)
        stack = Stack.of(self)
        group_arn = stack.format_arn(service="ec2", resource="security-group", resource_name=group_id)
        rules: dict[str, dict[str, object]] = {
            "Ingress": {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group_id}]},
            "Egress": {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]},
        }
        log_group = logs.LogGroup(
            self, "Logs", retention=logs.RetentionDays.ONE_WEEK, removal_policy=RemovalPolicy.DESTROY
        )
        for direction, rule in rules.items():
            revocation = cr.AwsCustomResource(
                self,
                direction,
                resource_type="Custom::ClosedDefaultSecurityGroup",
                install_latest_aws_sdk=False,
                log_group=log_group,
                on_create=cr.AwsSdkCall(
                    service="EC2",
                    action=f"RevokeSecurityGroup{direction}",
                    parameters={"GroupId": group_id, "IpPermissions": [rule]},
                    physical_resource_id=cr.PhysicalResourceId.of(f"{direction.lower()}-closed"),
                    # Gone already is what is wanted.
                    ignore_error_codes_matching=r"InvalidPermission\.NotFound",
                ),
                policy=cr.AwsCustomResourcePolicy.from_statements(
                    [iam.PolicyStatement(actions=[f"ec2:RevokeSecurityGroup{direction}"], resources=[group_arn])]
                ),
            )
            acknowledge(
                cast(IConstruct, revocation.grant_principal),
                "AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole]",
                "CDK makes this function and its role; the managed policy lets it write its own log and no more.",
            )

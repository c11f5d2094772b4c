"""VPC flow logs in CloudWatch Logs."""

from __future__ import annotations

from typing import cast

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from trainyard.retention import retain, retention_days


class FlowLogs(Construct):
    """All traffic of a VPC, accepted and rejected, kept for `days` (a retention that CloudWatch Logs knows)."""

    log_group: logs.ILogGroup

    def __init__(self, scope: Construct, construct_id: str, *, vpc_id: str, days: int, kept: bool) -> None:
        super().__init__(scope, construct_id)
        group = logs.LogGroup(self, "LogGroup", retention=retention_days(days))
        retain(cast(logs.CfnLogGroup, group.node.default_child), kept=kept)
        stack = cdk.Stack.of(self)
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal(
                "vpc-flow-logs.amazonaws.com",
                conditions={
                    "StringEquals": {"aws:SourceAccount": stack.account},
                    "ArnLike": {"aws:SourceArn": stack.format_arn(service="ec2", resource="vpc-flow-log/*")},
                },
            ),
        )
        # The VPC guide's list for CloudWatch Logs, less the creation of groups: this one stands already.
        group.grant(
            role, "logs:CreateLogStream", "logs:PutLogEvents", "logs:DescribeLogStreams", "logs:DescribeLogGroups"
        )
        ec2.CfnFlowLog(
            self,
            "FlowLog",
            resource_type="VPC",
            resource_id=vpc_id,
            traffic_type="ALL",
            log_destination_type="cloud-watch-logs",
            log_group_name=group.log_group_name,
            deliver_logs_permission_arn=role.role_arn,
        )
        self.log_group = group

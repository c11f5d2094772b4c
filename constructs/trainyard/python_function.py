"""A Lambda function in Python, as Trainyard makes them: own role, own log group, no rights but those granted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_python_alpha as lambda_python
from aws_cdk import aws_logs as logs
from constructs import Construct

from trainyard.bundling import bundling_options
from trainyard.nag import acknowledge

RUNTIME = lambda_.Runtime.PYTHON_3_13
ARCHITECTURE = lambda_.Architecture.ARM_64


class PythonFunction(Construct):
    """A function of a handler package under lambda/, with a role that may write its own log and nothing else.

    Args:
        entry: folder that holds the handler package.
        module: file of the handler inside `entry`, such as "cluster_resource/work.py"; its function is `handler`.
        log_removal: what becomes of the log group with the stack.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        entry: Path,
        module: str,
        description: str,
        timeout: cdk.Duration,
        memory_mib: int = 256,
        environment: Mapping[str, str] | None = None,
        log_retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH,
        log_removal: cdk.RemovalPolicy = cdk.RemovalPolicy.RETAIN,
    ) -> None:
        super().__init__(scope, construct_id)
        self.log_group = logs.LogGroup(self, "Log", retention=log_retention, removal_policy=log_removal)
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"Of the function: {description}",
        )
        self.log_group.grant_write(self.role)
        self.function = lambda_python.PythonFunction(
            self,
            "Function",
            entry=str(entry),
            index=module,
            handler="handler",
            runtime=RUNTIME,
            architecture=ARCHITECTURE,
            description=description,
            role=self.role,
            log_group=self.log_group,
            timeout=timeout,
            memory_size=memory_mib,
            environment=dict(environment or {}),
            bundling=bundling_options(RUNTIME, ARCHITECTURE),
        )
        acknowledge(
            self.function,
            "AwsSolutions-L1",
            "Lambda supports Python 3.13 until 2029. A newer runtime is a decision, since wheels are bundled for one.",
        )

"""Outputs of the cluster stack for people, SSM parameters for other tools."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_ssm as ssm
from constructs import Construct


class Outputs(Construct):
    """For example an output `HeadNodeId` and a parameter `/trainyard/<environment>/head-node/id`."""

    def __init__(self, scope: Construct, construct_id: str, *, environment: str) -> None:
        super().__init__(scope, construct_id)
        self._prefix = f"/trainyard/{environment}"

    def output(self, name: str, value: str, description: str) -> None:
        """Add an output of the stack with exactly that name."""
        output = cdk.CfnOutput(self, name, value=value, description=description)
        output.override_logical_id(name)

    def parameters(self, values: Mapping[str, str]) -> None:
        """Add a string parameter for each path, below the environment's prefix."""
        for path, value in values.items():
            ssm.StringParameter(
                self,
                f"Parameter-{path.replace('/', '-')}",
                parameter_name=f"{self._prefix}/{path}",
                string_value=value,
            )

"""The roles of a pipeline in the account of one environment."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import aws_iam as iam
from constructs import Construct

from settings.model import Environment
from settings.pipeline.model import Pipeline
from trainyard.nag import acknowledge
from trainyard.pipeline.names import PURPOSES, Purpose, step_role_arn, target_role
from trainyard.pipeline.permissions import statements, wildcards


class PromotionAccess(Construct):
    """A role for each purpose, assumed by the step role of the same purpose and environment.

    It trusts the step's role by name: that role need not exist yet, since this stack is deployed before the pipeline.

    Attributes:
        roles: by purpose.
    """

    roles: Mapping[Purpose, iam.Role]

    def __init__(self, scope: Construct, construct_id: str, *, pipeline: Pipeline, environment: Environment) -> None:
        super().__init__(scope, construct_id)
        self.roles = {purpose: self._role(pipeline, environment, purpose) for purpose in PURPOSES}

    def _role(self, pipeline: Pipeline, environment: Environment, purpose: Purpose) -> iam.Role:
        role = iam.Role(
            self,
            purpose.capitalize(),
            role_name=target_role(environment, purpose),
            description=f"For the {purpose} of {environment.name} by the pipeline {pipeline.name}",
            # IAM refuses the ARN of a role that does not exist as a principal.
            assumed_by=iam.AccountPrincipal(pipeline.account).with_conditions(
                {"ArnEquals": {"aws:PrincipalArn": step_role_arn(pipeline, environment, purpose)}}
            ),
        )
        policy = iam.Policy(
            self, f"{purpose.capitalize()}Policy", roles=[role], statements=statements(environment)[purpose]
        )
        for resource, reason in wildcards(environment)[purpose].items():
            acknowledge(policy, f"AwsSolutions-IAM5[Resource::{resource}]", reason)
        return role

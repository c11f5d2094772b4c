"""The roles that the steps of one environment run with, in the pipeline's account."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from settings.model import Environment
from settings.pipeline.model import Pipeline
from trainyard.pipeline.names import Purpose, step_role, target_role_arn


class StepRoles(Construct):
    """`review` and `validation`, each of which may take the role of the same purpose in the environment's account.

    Each environment has its own, so that a step of dev cannot reach prod.
    """

    review: iam.Role
    validation: iam.Role

    def __init__(self, scope: Construct, construct_id: str, *, pipeline: Pipeline, environment: Environment) -> None:
        super().__init__(scope, construct_id)
        self.review = self._role("Review", pipeline, environment, "review")
        self.validation = self._role("Validation", pipeline, environment, "validation")

    def _role(self, construct_id: str, pipeline: Pipeline, environment: Environment, purpose: Purpose) -> iam.Role:
        role = iam.Role(
            self,
            construct_id,
            role_name=step_role(pipeline, environment, purpose),
            description=f"Steps of the pipeline {pipeline.name} for the {purpose} of {environment.name}",
            assumed_by=iam.ServicePrincipal(
                "codebuild.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self).account}}
            ),
        )
        role.add_to_policy(
            iam.PolicyStatement(
                sid="Target", actions=["sts:AssumeRole"], resources=[target_role_arn(environment, purpose)]
            )
        )
        return role

"""The roles that a pipeline, or a GitHub workflow, has in the account of one environment."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_iam as iam
from constructs import Construct

from settings.model import Environment
from settings.pipeline.model import Pipeline
from trainyard.nag import acknowledge
from trainyard.pipeline.names import step_role_arn, target_role
from trainyard.pipeline.permissions import review_statements, validation_statements

HOURS = 1
"""A role that is assumed from a role lasts an hour at most."""


class PromotionAccess(Construct):
    """Two roles: `review` reads, for preflight, diff and drift; `validation` runs commands on the head node.

    Each trusts one role of the pipeline's account, by its name: that role need not exist yet, so this can stand before
    the pipeline does.
    """

    review: iam.Role
    validation: iam.Role

    def __init__(self, scope: Construct, construct_id: str, *, pipeline: Pipeline, environment: Environment) -> None:
        super().__init__(scope, construct_id)
        self.review = iam.Role(
            self,
            "Review",
            role_name=target_role(environment, "review"),
            description=f"Reads for preflight, diff and drift of {environment.name}",
            assumed_by=_only(pipeline.account, [step_role_arn(pipeline, environment, "review")]),
        )
        policy = iam.Policy(self, "ReviewPolicy", roles=[self.review], statements=review_statements(environment))
        acknowledge(
            policy,
            "AwsSolutions-IAM5[Resource::*]",
            "Reads of offers, quotas and resources of a region, which are not known by ARN or take none.",
        )
        self.validation = iam.Role(
            self,
            "Validation",
            role_name=target_role(environment, "validation"),
            description=f"Runs the validation of {environment.name} on its head node",
            assumed_by=_only(pipeline.account, [step_role_arn(pipeline, environment, "validation")]),
        )
        policy = iam.Policy(
            self, "ValidationPolicy", roles=[self.validation], statements=validation_statements(environment)
        )
        for statement in policy.document.to_json()["Statement"]:  # the findings name each wildcard
            for resource in _listed(statement.get("Resource", [])):
                if isinstance(resource, str) and "*" in resource:
                    acknowledge(
                        policy,
                        f"AwsSolutions-IAM5[Resource::{resource}]",
                        "Commands go to instances that carry the cluster's tag as its head node; results have no ARN.",
                    )


def _only(account: str, roles: Sequence[str]) -> iam.IPrincipal:
    """The roles of another account, which need not exist: an ARN as the principal itself would be refused then."""
    return iam.AccountPrincipal(account).with_conditions({"ArnEquals": {"aws:PrincipalArn": list(roles)}})


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else [value]

"""The roles of a pipeline, or of a GitHub Actions workflow, in the account of one environment."""

from __future__ import annotations

from aws_cdk import Duration, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from settings.model import Environment
from settings.pipeline.model import GitHub, Pipeline
from settings.regions import partition
from trainyard.nag import acknowledge
from trainyard.pipeline.names import PURPOSES, GitHubPurpose, Purpose, step_role_arn, target_role
from trainyard.pipeline.permissions import grants

DEPLOYMENT_HOURS = 6
"""The longest job of a workflow: creating a cluster takes up to an hour, its validation up to four."""
_ISSUER = "token.actions.githubusercontent.com"
_AUDIENCE = "sts.amazonaws.com"


class PromotionAccess(Construct):
    """A role for each purpose, assumed by the step role of the same purpose and environment.

    It trusts the step's role by name: that role need not exist yet, since this stack is deployed before the pipeline.
    """

    def __init__(self, scope: Construct, construct_id: str, *, pipeline: Pipeline, environment: Environment) -> None:
        super().__init__(scope, construct_id)
        for purpose in PURPOSES:
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
            given = grants(environment)[purpose]
            statements = [grant.statement() for grant in given]
            policy = iam.Policy(self, f"{purpose.capitalize()}Policy", roles=[role], statements=statements)
            acknowledge(policy, {grant.finding: grant.wildcard for grant in given})


class GitHubAccess(Construct):
    """A role for the job that reviews a change, and one for the job that deploys and validates it.

    The first may do preflight and diff, the second assume the roles of the CDK's bootstrap, and validate. Each trusts
    one GitHub environment of one repository through OpenID Connect: `<environment>-review` and `<environment>`.
    GitHub's protection rules decide which branches may use it and whose approval a job needs.
    """

    def __init__(self, scope: Construct, construct_id: str, *, github: GitHub, environment: Environment) -> None:
        super().__init__(scope, construct_id)
        self._github, self._environment = github, environment
        self._provider = f"arn:{partition(environment.region)}:iam::{environment.account}:oidc-provider/{_ISSUER}"
        if github.provider == "create":
            provider = iam.CfnOIDCProvider(self, "Provider", url=f"https://{_ISSUER}", client_id_list=[_AUDIENCE])
            self._provider = provider.attr_arn
        self._role("Review", "github-review", f"{environment.name}-review", 1, ("preflight", "diff"))
        deployment = self._role("Deployment", "github-deployment", environment.name, DEPLOYMENT_HOURS, ("validation",))
        place = f"{environment.account}-{environment.region}"
        bootstrap = [
            Stack.of(self).format_arn(
                service="iam", region="", resource="role", resource_name=f"cdk-hnb659fds-{role}-{place}"
            )
            for role in ("deploy-role", "file-publishing-role", "lookup-role")
        ]
        deployment.add_to_policy(iam.PolicyStatement(sid="Bootstrap", actions=["sts:AssumeRole"], resources=bootstrap))

    def _role(
        self,
        construct_id: str,
        name: GitHubPurpose,
        github_environment: str,
        hours: int,
        purposes: tuple[Purpose, ...],
    ) -> iam.Role:
        subject = f"{self._github.subject}:environment:{github_environment}"
        role = iam.Role(
            self,
            construct_id,
            role_name=target_role(self._environment, name),
            description=f"GitHub Actions, {self._github.repository}, environment {github_environment}",
            max_session_duration=Duration.hours(hours),
            assumed_by=iam.WebIdentityPrincipal(
                self._provider, {"StringEquals": {f"{_ISSUER}:aud": _AUDIENCE, f"{_ISSUER}:sub": subject}}
            ),
        )
        for purpose in purposes:
            for grant in grants(self._environment)[purpose]:
                role.add_to_policy(grant.statement())
                acknowledge(role, {grant.finding: grant.wildcard})
        return role

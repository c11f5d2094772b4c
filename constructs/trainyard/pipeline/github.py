"""The roles of a GitHub Actions workflow in the account of one environment, assumed through OpenID Connect."""

from __future__ import annotations

from aws_cdk import Duration, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from settings.model import Environment
from settings.pipeline.model import GitHub
from settings.regions import partition
from trainyard.nag import acknowledge
from trainyard.pipeline.names import GitHubPurpose, Purpose, target_role
from trainyard.pipeline.permissions import statements, wildcards

ISSUER = "token.actions.githubusercontent.com"
AUDIENCE = "sts.amazonaws.com"
DEPLOYMENT_HOURS = 6
"""The longest job: creating a cluster takes up to an hour, its validation up to four."""
_BOOTSTRAP = ("deploy-role", "file-publishing-role", "lookup-role")
_QUALIFIER = "hnb659fds"


class GitHubAccess(Construct):
    """`review` for the job that reviews a change, `deployment` for the job that deploys and validates it.

    Each trusts one GitHub environment of one repository: `<environment>-review` and `<environment>`. GitHub's
    protection rules decide which branches may use it and whose approval a job needs.

    Attributes:
        review: preflight and diff.
        deployment: the roles of the CDK's bootstrap, and validation.
    """

    review: iam.Role
    deployment: iam.Role

    def __init__(self, scope: Construct, construct_id: str, *, github: GitHub, environment: Environment) -> None:
        super().__init__(scope, construct_id)
        self._github, self._environment = github, environment
        arn = f"arn:{partition(environment.region)}:iam::{environment.account}:oidc-provider/{ISSUER}"
        if github.provider == "create":
            provider = iam.CfnOIDCProvider(self, "Provider", url=f"https://{ISSUER}", client_id_list=[AUDIENCE])
            arn = provider.attr_arn
        self.review = self._role("Review", "github-review", f"{environment.name}-review", arn, Duration.hours(1))
        self._allow(self.review, "preflight", "diff")
        self.deployment = self._role(
            "Deployment", "github-deployment", environment.name, arn, Duration.hours(DEPLOYMENT_HOURS)
        )
        self._allow(self.deployment, "validation")
        place = f"{environment.account}-{environment.region}"
        self.deployment.add_to_policy(
            iam.PolicyStatement(
                sid="Bootstrap",
                actions=["sts:AssumeRole"],
                resources=[
                    Stack.of(self).format_arn(
                        service="iam", region="", resource="role", resource_name=f"cdk-{_QUALIFIER}-{role}-{place}"
                    )
                    for role in _BOOTSTRAP
                ],
            )
        )

    def _role(
        self, construct_id: str, purpose: GitHubPurpose, github_environment: str, provider_arn: str, longest: Duration
    ) -> iam.Role:
        return iam.Role(
            self,
            construct_id,
            role_name=target_role(self._environment, purpose),
            description=f"GitHub Actions, {self._github.repository}, environment {github_environment}",
            max_session_duration=longest,
            assumed_by=iam.WebIdentityPrincipal(
                provider_arn,
                {
                    "StringEquals": {
                        f"{ISSUER}:aud": AUDIENCE,
                        f"{ISSUER}:sub": f"{self._github.subject}:environment:{github_environment}",
                    }
                },
            ),
        )

    def _allow(self, role: iam.Role, *purposes: Purpose) -> None:
        for purpose in purposes:
            for statement in statements(self._environment)[purpose]:
                role.add_to_policy(statement)
            for resource, reason in wildcards(self._environment)[purpose].items():
                acknowledge(role, f"AwsSolutions-IAM5[Resource::{resource}]", reason)

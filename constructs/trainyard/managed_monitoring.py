"""Mode `managed`: a workspace of Amazon Managed Service for Prometheus and one of Amazon Managed Grafana."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_aps as aps
from aws_cdk import aws_grafana as grafana
from aws_cdk import aws_iam as iam
from constructs import Construct

from settings.model import Environment
from trainyard import monitoring_config
from trainyard.monitoring_host import CLOUDWATCH_READ
from trainyard.nag import ANY_RESOURCE, acknowledge
from trainyard.principals import own_service
from trainyard.retention import retain

GRAFANA_VERSION = "10.4"
_QUERY = ("aps:GetLabels", "aps:GetMetricMetadata", "aps:GetSeries", "aps:QueryMetrics")


class ManagedMonitoring(Construct):
    """Both workspaces, the alert rules and their route to the topic.

    The monitoring host sends the series and writes dashboards, for which CloudFormation has no type. Users sign in to
    Grafana with IAM Identity Center, which the account must have.

    Args:
        topic_arn: the topic that alerts are published to.
        kept: keep the metrics when the stack is deleted.

    Attributes:
        address: of Grafana.
        query_url: of Prometheus' HTTP API, to be called with SigV4.
        values: settings of the host, by name.
    """

    address: str
    query_url: str
    values: dict[str, str]

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: Environment,
        topic_arn: str,
        kept: bool,
    ) -> None:
        super().__init__(scope, construct_id)
        stack, settings = Stack.of(self), environment.observability
        region = environment.region
        self._metrics = metrics = aps.CfnWorkspace(
            self,
            "Metrics",
            alias=environment.name,
            alert_manager_definition=monitoring_config.managed_alertmanager(topic_arn, region, settings.runbooks),
            workspace_configuration=aps.CfnWorkspace.WorkspaceConfigurationProperty(
                retention_period_in_days=settings.retention_days
            ),
        )
        retain(metrics, kept=kept)
        for name, text in monitoring_config.rules().items():
            aps.CfnRuleGroupsNamespace(
                self, f"Rules-{name}", workspace=metrics.attr_arn, name=name.removesuffix(".yml"), data=text
            )
        role = iam.Role(self, "GrafanaRole", assumed_by=own_service(self, "grafana.amazonaws.com"))
        policy = iam.Policy(
            self,
            "Read",
            roles=[role],
            statements=[
                iam.PolicyStatement(actions=["aps:DescribeWorkspace", *_QUERY], resources=[metrics.attr_arn]),
                iam.PolicyStatement(actions=["aps:ListWorkspaces", *CLOUDWATCH_READ], resources=["*"]),
            ],
        )
        acknowledge(policy, {ANY_RESOURCE: "Lists, and the calls of CloudWatch, EC2 and tagging that take no ARN."})
        dashboards = grafana.CfnWorkspace(
            self,
            "Dashboards",
            name=environment.name,
            account_access_type="CURRENT_ACCOUNT",
            authentication_providers=["AWS_SSO"],
            permission_type="CUSTOMER_MANAGED",
            role_arn=role.role_arn,
            data_sources=["PROMETHEUS", "CLOUDWATCH"],
            grafana_version=GRAFANA_VERSION,
        )
        self.address = f"https://{dashboards.attr_endpoint}"
        self.query_url = metrics.attr_prometheus_endpoint
        self.values = {
            "WORKSPACE_URL": metrics.attr_prometheus_endpoint,
            "GRAFANA_ID": dashboards.attr_id,
            "GRAFANA_ENDPOINT": dashboards.attr_endpoint,
        }
        self._grafana_arn = stack.format_arn(
            service="grafana", resource="/workspaces", resource_name=dashboards.attr_id
        )

    def grant_host(self, host: iam.Role) -> None:
        """Let the monitoring host send series, and write data sources and dashboards as a service account."""
        accounts = ("CreateWorkspaceServiceAccount", "ListWorkspaceServiceAccounts")
        tokens = ("CreateWorkspaceServiceAccountToken", "DeleteWorkspaceServiceAccountToken")
        statements = [
            iam.PolicyStatement(actions=["aps:RemoteWrite"], resources=[self._metrics.attr_arn]),
            iam.PolicyStatement(
                actions=[f"grafana:{name}" for name in (*accounts, *tokens)], resources=[self._grafana_arn]
            ),
        ]
        iam.Policy(self, "Host", roles=[host], statements=statements)

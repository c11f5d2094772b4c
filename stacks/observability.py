"""The stack that observes an environment: metrics, dashboards, alerts, notifications and the budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import CfnOutput
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from settings.model import Environment
from settings.stacks import topic_arn
from stacks.api import ApiStack
from stacks.environment_stack import EnvironmentStack
from stacks.network import NetworkStack
from stacks.storage import StorageStack

if TYPE_CHECKING:
    from trainyard.notifications import Notifications


class ObservabilityStack(EnvironmentStack):
    """What the mode of `observability` asks for. With mode off, only the budget: a change of modes removes the rest.

    The last stack. It reads what the cluster stack publishes when it runs, not as references: no other stack waits for
    it, and a cluster is replaced or deleted without it. Constructs are imported when a mode needs them.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
        network: NetworkStack,
        storage: StorageStack,
        api: ApiStack,
    ) -> None:
        holds = "metrics, dashboards, alerts and notifications"
        super().__init__(scope, "observability", environment=environment, holds=holds)
        self._environment, self._network, self._storage = environment, network, storage
        budget = environment.cost.budget
        notifications = self._notify(api) if environment.observability.on else None
        if notifications and environment.observability.prometheus:
            self._collect(notifications)
        if budget:
            from trainyard.cost_budget import CostBudget

            CostBudget(
                self,
                "Budget",
                environment=environment,
                budget=budget,
                notifications=notifications,
                logs=self.function_logs,
            )
        elif not notifications:
            self.add_placeholder()

    def _notify(self, api: ApiStack) -> Notifications:
        """The topic, and what CloudWatch and EventBridge publish to it."""
        from trainyard.cloudwatch_alarms import CloudWatchAlarms
        from trainyard.cloudwatch_dashboard import CloudWatchDashboard
        from trainyard.event_notifications import EventNotifications
        from trainyard.notifications import Notifications

        environment, storage = self._environment, self._storage
        notifications = Notifications(self, "Notifications", environment=environment, logs=self.function_logs)
        topic, lustre = notifications.topic, {name: item.file_system_id for name, item in storage.lustre.items()}
        machine = api.provider.state_machine_arn
        EventNotifications(self, "Events", environment=environment, topic=topic, state_machine_arn=machine)
        alarms = CloudWatchAlarms(
            self,
            "Alarms",
            environment=environment,
            topic=topic,
            lustre=lustre,
            openzfs=storage.openzfs.file_system_id if storage.openzfs else None,
            nat_gateway=self._network.network.nat_gateway_id,
        )
        if environment.observability.mode == "cloudwatch":
            CloudWatchDashboard(self, "Dashboard", environment=environment, alarms=alarms.alarms, lustre=lustre)
            console = f"https://{self.region}.console.aws.amazon.com/cloudwatch/home?region={self.region}"
            self._output("Dashboards", f"{console}#dashboards/dashboard/trainyard-{environment.name}", "In CloudWatch")
        return notifications

    def _collect(self, notifications: Notifications) -> None:
        """Prometheus and the dashboards, on the host or as managed services."""
        from trainyard.monitoring_host import MonitoringHost

        environment, managed = self._environment, None
        # By name, for the host's bundle: the reference is known only when the stack is deployed.
        topic = topic_arn(environment)
        address, query_url = "http://localhost:3000", "http://localhost:9090"
        if environment.observability.mode == "managed":
            from trainyard.managed_monitoring import ManagedMonitoring

            managed = ManagedMonitoring(self, "Managed", environment=environment, topic_arn=topic, kept=self.keeps_logs)
            address, query_url = managed.address, managed.query_url
            notifications.allow_service("aps.amazonaws.com", "sns:GetTopicAttributes")
        host = MonitoringHost(
            self,
            "Host",
            environment=environment,
            network=self._network.network,
            groups=self._network.security_groups,
            assets=self._storage.buckets.assets,
            topic_arn=topic,
            keep_volume=self.keeps_logs,
            values=managed.values if managed else {},
        )
        if managed:
            managed.grant_host(host.role)
        self._output("Dashboards", address, "Grafana; `trainyard connect --dashboards` opens it")
        self._output("Prometheus", query_url, "Prometheus' HTTP API")
        ssm.StringParameter(
            self,
            "PrometheusUrl",
            parameter_name=f"/trainyard/{environment.name}/observability/prometheus-url",
            string_value=query_url,
        )

    def _output(self, name: str, value: str, description: str) -> None:
        CfnOutput(self, name, value=value, description=description).override_logical_id(name)

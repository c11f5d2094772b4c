"""The stack that observes an environment: metrics, dashboards, alerts and notifications."""

from __future__ import annotations

from constructs import Construct

from settings.model import Environment
from stacks.api import ApiStack
from stacks.environment_stack import EnvironmentStack
from stacks.network import NetworkStack
from stacks.storage import StorageStack
from trainyard.cloudwatch_alarms import CloudWatchAlarms
from trainyard.cloudwatch_dashboard import CloudWatchDashboard
from trainyard.event_notifications import EventNotifications
from trainyard.notifications import Notifications


class ObservabilityStack(EnvironmentStack):
    """What the mode of `observability` asks for; empty with mode off, so that a change of modes removes the rest.

    The last stack. It reads what the cluster stack publishes when it runs, not as references: no other stack waits for
    it, and a cluster is replaced or deleted without it.
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
        if not environment.observability.on:
            self.add_placeholder()
            return
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
            nat_gateway=network.network.nat_gateway_id,
        )
        if environment.observability.mode == "cloudwatch":
            CloudWatchDashboard(self, "Dashboard", environment=environment, alarms=alarms.alarms, lustre=lustre)

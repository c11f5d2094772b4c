"""The stack that observes an environment: metrics, dashboards, alerts and notifications."""

from __future__ import annotations

from constructs import Construct

from settings.model import Environment
from stacks.environment_stack import EnvironmentStack
from stacks.network import NetworkStack
from stacks.storage import StorageStack


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
        network: NetworkStack,  # noqa: ARG002 - the constructs follow
        storage: StorageStack,  # noqa: ARG002
    ) -> None:
        holds = "metrics, dashboards, alerts and notifications"
        super().__init__(scope, "observability", environment=environment, holds=holds)
        self.add_placeholder()

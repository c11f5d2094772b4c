"""The network stack of an environment."""

from __future__ import annotations

from constructs import Construct

from settings.model import Environment
from stacks.environment_stack import EnvironmentStack
from trainyard.endpoints import PrivateEndpoints
from trainyard.network import Network
from trainyard.security import SecurityGroups


class NetworkStack(EnvironmentStack):
    """VPC, subnets, internet access, and security groups."""

    network: Network
    security_groups: SecurityGroups

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
    ) -> None:
        super().__init__(
            scope,
            "network",
            environment=environment,
            holds="VPC, subnets, security groups",
            # Kept file systems have their network interfaces in this stack's subnet.
            termination_protection=environment.retention.file_systems == "keep",
        )
        storage = environment.storage
        kept_file_systems = environment.retention.file_systems == "keep" and bool(storage.lustre or storage.openzfs)
        self.network = Network(
            self,
            "Network",
            network=environment.network,
            keep_logs=environment.retention.logs == "keep",
            keep_for_file_systems=kept_file_systems,
        )
        self.security_groups = SecurityGroups(
            self,
            "SecurityGroups",
            vpc=self.network.vpc,
            network=environment.network,
            efa_storage=any(lustre.efa for lustre in storage.lustre),
            keep_for_file_systems=kept_file_systems,
        )
        if environment.network.existing is None and environment.network.egress == "endpoints-only":
            PrivateEndpoints(
                self,
                "Endpoints",
                vpc=self.network.vpc,
                subnet=self.network.private_subnet,
                cluster=environment.cluster,
            )

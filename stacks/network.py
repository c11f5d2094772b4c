"""The network stack of an environment."""

from __future__ import annotations

from constructs import Construct

from settings.model import Environment
from stacks.environment_stack import EnvironmentStack
from trainyard.network import Network, PrivateEndpoints
from trainyard.security import SecurityGroups


class NetworkStack(EnvironmentStack):
    """VPC, subnets, internet access, and security groups."""

    network: Network
    security_groups: SecurityGroups

    def __init__(self, scope: Construct, *, environment: Environment) -> None:
        kept = environment.retention.file_systems == "keep"
        super().__init__(
            scope,
            "network",
            environment=environment,
            holds="VPC, subnets, security groups",
            # Kept file systems have their network interfaces in this stack's subnet.
            termination_protection=kept,
        )
        settings, storage = environment.network, environment.storage
        kept_file_systems = kept and bool(storage.lustre or storage.openzfs)
        self.network = Network(
            self,
            "Network",
            network=settings,
            public_login_nodes=(login := environment.cluster.login_nodes) is not None and login.subnet == "public",
            keep_logs=self.keeps_logs,
            keep_for_file_systems=kept_file_systems,
        )
        self.security_groups = SecurityGroups(
            self,
            "SecurityGroups",
            vpc=self.network.vpc,
            network=settings,
            efa_storage=any(lustre.efa for lustre in storage.lustre),
            keep_for_file_systems=kept_file_systems,
        )
        if settings.existing is None and settings.egress == "endpoints-only":
            PrivateEndpoints(
                self,
                "Endpoints",
                network=self.network,
                cluster=environment.cluster,
                observability=environment.observability,
                directory=environment.people.directory is not None,
            )

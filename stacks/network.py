"""The network stack of an environment."""

from __future__ import annotations

from aws_cdk import Environment as CdkEnvironment
from aws_cdk import Stack
from constructs import Construct

from settings.model import Environment
from trainyard.endpoints import PrivateEndpoints
from trainyard.network import Network
from trainyard.security import SecurityGroups


class NetworkStack(Stack):
    """VPC, subnets, way out, and security groups."""

    network: Network
    security_groups: SecurityGroups

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: Environment,
        env: CdkEnvironment | None = None,
        stack_name: str | None = None,
        description: str | None = None,
        termination_protection: bool | None = None,
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            env=env,
            stack_name=stack_name,
            description=description,
            termination_protection=termination_protection,
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

"""The API stack: the ParallelCluster API, and what makes clusters through it. Needs no other stack."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from settings.model import Environment
from trainyard.cluster_provider import ClusterProvider
from trainyard.logs import retention_days
from trainyard.parallelcluster_api import ParallelClusterApi


class ApiStack(cdk.Stack):
    """The API, new or existing, and the functions behind `Custom::ParallelCluster`."""

    api: ParallelClusterApi
    provider: ClusterProvider

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: Environment,
        cluster_stack_name: str,
        env: cdk.Environment | None = None,
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
        cluster = environment.cluster
        self.api = ParallelClusterApi(
            self,
            "ParallelClusterApi",
            region=environment.region,
            existing=cluster.api,
            permissions_boundary=cluster.permissions_boundary,
        )
        keep_logs = environment.retention.logs == "keep"
        self.provider = ClusterProvider(
            self,
            "ClusterProvider",
            cluster_name=environment.cluster_name,
            cluster_stack_name=cluster_stack_name,
            api_user_role_arn=self.api.user_role_arn,
            log_retention=retention_days(cluster.monitoring.log_days),
            log_removal=cdk.RemovalPolicy.RETAIN if keep_logs else cdk.RemovalPolicy.DESTROY,
        )

"""The API stack: the ParallelCluster API, and the custom resource that uses it. Depends on no other stack."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from settings.model import Environment
from settings.stacks import stack_name
from stacks.environment_stack import EnvironmentStack
from trainyard.cluster_provider import ClusterProvider
from trainyard.parallelcluster_api import ParallelClusterApi
from trainyard.retention import retention_days


class ApiStack(EnvironmentStack):
    """The API, new or existing, and the functions behind `Custom::ParallelCluster`."""

    api: ParallelClusterApi
    provider: ClusterProvider

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
    ) -> None:
        super().__init__(
            scope,
            "api",
            environment=environment,
            holds="ParallelCluster API and the cluster's custom resource",
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
            cluster_stack_name=stack_name(environment, "cluster"),
            api_user_role_arn=self.api.user_role_arn,
            log_retention=retention_days(cluster.monitoring.log_days),
            log_removal=cdk.RemovalPolicy.RETAIN if keep_logs else cdk.RemovalPolicy.DESTROY,
        )

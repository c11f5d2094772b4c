"""The API stack: the ParallelCluster API, and the custom resource that uses it. Depends on no other stack."""

from __future__ import annotations

from constructs import Construct

from settings.model import Environment
from settings.stacks import stack_name
from stacks.environment_stack import EnvironmentStack
from trainyard.cluster_provider import ClusterProvider
from trainyard.parallelcluster_api import ParallelClusterApi


class ApiStack(EnvironmentStack):
    """The API, new or existing, and the functions behind `Custom::ParallelCluster`."""

    api: ParallelClusterApi
    provider: ClusterProvider

    def __init__(self, scope: Construct, *, environment: Environment) -> None:
        holds = "ParallelCluster API and the cluster's custom resource"
        super().__init__(scope, "api", environment=environment, holds=holds)
        self.api = ParallelClusterApi(
            self,
            "ParallelClusterApi",
            region=environment.region,
            existing=environment.cluster.api,
            permissions_boundary=environment.cluster.permissions_boundary,
        )
        self.provider = ClusterProvider(
            self,
            "ClusterProvider",
            cluster_names=[name for name in (environment.cluster_name, environment.cluster.predecessor) if name],
            cluster_stack_name=stack_name(environment, "cluster"),
            api_user_role_arn=self.api.user_role_arn,
            logs=self.function_logs,
        )

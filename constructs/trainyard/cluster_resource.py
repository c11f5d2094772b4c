"""`Custom::ParallelCluster`: a Slurm cluster as a resource of a CloudFormation stack."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
from constructs import Construct

from trainyard.cluster_config import types_of
from trainyard.parallelcluster_api import ParallelClusterApi

RESOURCE_TYPE = "Custom::ParallelCluster"
# CloudFormation's own limit for a custom resource.
_SERVICE_TIMEOUT = cdk.Duration.seconds(3600)


class ClusterResource(Construct):
    """A cluster, made by the functions behind `service_token` (see `trainyard.cluster_provider`).

    The configuration goes to CloudFormation as a nested structure, so that a diff shows the key that changed.

    Args:
        name: of the cluster; another name is another cluster, and the old one is deleted.
        configuration: the ParallelCluster configuration; values may be CDK tokens.
        assets_version: content version of the cluster's assets, visible in a diff; it does not touch the cluster.
        timeout_minutes: most that a create, update or delete may take.

    Attributes:
        head_node_instance_id, head_node_private_ip, stack_arn, status, version: as the cluster was when the resource
            was last changed; tokens.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        configuration: Mapping[str, object],
        api: ParallelClusterApi,
        service_token: str,
        assets_version: str,
        timeout_minutes: int,
    ) -> None:
        super().__init__(scope, construct_id)
        self.resource = cdk.CustomResource(
            self,
            "Resource",
            resource_type=RESOURCE_TYPE,
            service_token=service_token,
            service_timeout=_SERVICE_TIMEOUT,
            properties={
                "ClusterName": name,
                "Configuration": dict(configuration),
                "ConfigurationTypes": types_of(configuration),
                "ApiUrl": api.url,
                "ApiUserRoleArn": api.user_role_arn,
                "ApiVersion": api.version,
                "AssetsVersion": assets_version,
                "TimeoutMinutes": timeout_minutes,
            },
        )
        self.head_node_instance_id = self.resource.get_att_string("HeadNodeInstanceId")
        self.head_node_private_ip = self.resource.get_att_string("HeadNodePrivateIp")
        self.stack_arn = self.resource.get_att_string("StackArn")
        self.status = self.resource.get_att_string("Status")
        self.version = self.resource.get_att_string("Version")

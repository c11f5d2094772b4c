"""`Custom::ParallelCluster`: a Slurm cluster as a resource of a CloudFormation stack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import aws_cdk as cdk
from constructs import Construct

from trainyard.cluster_config import types_of
from trainyard.parallelcluster_api import ParallelClusterApi


class ClusterResource(Construct):
    """A cluster, made by the functions behind `service_token` (see `trainyard.cluster_provider`).

    CloudFormation gets the configuration as a nested structure, so that a diff shows the key that changed. If an
    operation may take longer than CloudFormation waits for one resource, further resources wait for its end
    (docs/decisions/0005-longer-than-an-hour.md).

    Args:
        name: of the cluster. Another name means another cluster; the old one is deleted.
        configuration: the ParallelCluster configuration; values may be CDK tokens.
        assets_version: content version of the cluster's assets, visible in a diff; it does not affect the cluster.
        hooks: the user's own scripts in those assets, one text each, so that a diff shows them.
        timeout_minutes: most that a create, update or delete may take, up to 720.
        answer_minutes: when CloudFormation gets its answer at the latest, up to 55; further resources wait for longer
            operations.
        updates: the update policies by property name, such as StopFleet.
        generation: another number makes CloudFormation send an update, although nothing else changed.
        frozen: keep the existing cluster as it is, whatever the other arguments are, until this resource is deleted.

    Attributes:
        head_node_instance_id, head_node_private_ip, stack_arn, status, version: tokens, with the cluster's values when
            the resource was last changed.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        region: str,
        configuration: Mapping[str, object],
        api: ParallelClusterApi,
        service_token: str,
        assets_version: str,
        timeout_minutes: int,
        answer_minutes: int,
        updates: Mapping[str, str],
        hooks: Sequence[str] = (),
        generation: int = 0,
        frozen: bool = False,
    ) -> None:
        super().__init__(scope, construct_id)
        self._service_token, self._answer_minutes = service_token, answer_minutes
        links = links_for(timeout_minutes, answer_minutes)
        waits = 0 if frozen else links  # a frozen cluster has no operation to wait for
        place = {"ClusterName": name, "ApiUrl": api.url, "ApiUserRoleArn": api.user_role_arn}
        self.resource = self._custom_resource(
            "Resource",
            "Custom::ParallelCluster",
            {
                **place,
                "Configuration": dict(configuration),
                "ConfigurationTypes": types_of(configuration),
                "ApiVersion": api.version,
                "AssetsVersion": assets_version,
                "TimeoutMinutes": timeout_minutes,
                "WaitsBehind": waits,
                "WaitsBefore": links,
                "Updates": dict(updates),
                **({"Hooks": list(hooks)} if hooks else {}),
                **({"Generation": generation} if generation else {}),
                **({"Frozen": True} if frozen else {}),
            },
        )
        logical_id = cdk.Stack.of(self).get_logical_id(self.resource.node.default_child)  # type: ignore[arg-type]
        common = {**place, "Region": region, "Owner": f"{cdk.Aws.STACK_ID}/{logical_id}"}
        # Resources whose deletion, one after the other, follows the cluster's and waits for its end.
        after = self.resource
        for number in range(1, links + 1):
            properties = {**common, "WaitsBefore": links - number}
            link = self._custom_resource(f"Gone{number}", "Custom::ParallelClusterGone", properties)
            after.node.add_dependency(link)
            after = link
        # Resources that wait, one after the other, for the end of a creation or an update.
        last = self.resource
        execution = self.resource.get_att_string("Execution")
        for number in range(1, waits + 1):
            properties = {**common, "Execution": execution, "WaitsBehind": waits - number}
            link = self._custom_resource(f"Wait{number}", "Custom::ParallelClusterWait", properties)
            link.node.add_dependency(last)
            last = link
        self.head_node_instance_id = last.get_att_string("HeadNodeInstanceId")
        self.head_node_private_ip = last.get_att_string("HeadNodePrivateIp")
        self.stack_arn = last.get_att_string("StackArn")
        self.status = last.get_att_string("Status")
        self.version = last.get_att_string("Version")

    def _custom_resource(self, construct_id: str, kind: str, properties: Mapping[str, object]) -> cdk.CustomResource:
        return cdk.CustomResource(
            self,
            construct_id,
            resource_type=kind,
            service_token=self._service_token,
            # CloudFormation's own limit for a custom resource.
            service_timeout=cdk.Duration.seconds(3600),
            properties={**properties, "AnswerMinutes": self._answer_minutes},
        )


def links_for(timeout_minutes: int, answer_minutes: int) -> int:
    """How many further resources must wait, so that their time together reaches the time limit."""
    return 0 if timeout_minutes <= answer_minutes else timeout_minutes // answer_minutes

"""The cluster stack: cluster assets, the cluster, outputs for people and parameters for tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from constructs import Construct

from settings.model import Environment
from stacks.environment_stack import EnvironmentStack
from trainyard.buckets import Buckets
from trainyard.cluster_assets_publication import ClusterAssetsPublication
from trainyard.cluster_config import EntryScript, References, render
from trainyard.cluster_policies import ClusterPolicies
from trainyard.cluster_provider import ClusterProvider
from trainyard.cluster_resource import ClusterResource
from trainyard.cluster_settings import CLUSTER_USERS, cluster_settings
from trainyard.head_node_documents import ValidationDocument
from trainyard.lustre import LustreFileSystem
from trainyard.network import Network
from trainyard.openzfs import OpenZfsFileSystem
from trainyard.outputs import Outputs
from trainyard.parallelcluster_api import ParallelClusterApi
from trainyard.retention import retention_days
from trainyard.security import SecurityGroups


class ClusterStack(EnvironmentStack):
    """The cluster on network, storage, images and API of its environment."""

    policies: ClusterPolicies
    assets: ClusterAssetsPublication
    cluster: ClusterResource
    validation: ValidationDocument

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
        network: Network,
        security_groups: SecurityGroups,
        buckets: Buckets,
        lustre: Mapping[str, LustreFileSystem],
        openzfs: OpenZfsFileSystem | None,
        repositories: Mapping[str, ecr.IRepository],
        api: ParallelClusterApi,
        provider: ClusterProvider,
    ) -> None:
        super().__init__(
            scope,
            "cluster",
            environment=environment,
            holds=f"the Slurm cluster {environment.cluster_name}",
        )
        self._environment = environment
        self.policies = ClusterPolicies(
            self,
            "Policies",
            repositories=repositories.values(),
            data=buckets.data,
            checkpoints=buckets.checkpoints,
            assets=buckets.assets,
        )
        keep_logs = environment.retention.logs == "keep"
        self.assets = ClusterAssetsPublication(
            self,
            "Assets",
            bucket=buckets.assets,
            settings=cluster_settings(
                environment,
                repository_uris={name: repository.repository_uri for name, repository in repositories.items()},
                data_bucket=buckets.data.bucket_name,
                checkpoints_bucket=buckets.checkpoints.bucket_name,
                assets_bucket=buckets.assets.bucket_name,
            ),
            log_retention=retention_days(environment.cluster.monitoring.log_days),
            log_removal=cdk.RemovalPolicy.RETAIN if keep_logs else cdk.RemovalPolicy.DESTROY,
        )
        references = self._references(network, security_groups, buckets, lustre, openzfs)
        configuration = render(environment, references)
        self.cluster = self._cluster(environment.cluster_name, configuration, api, provider)
        if environment.cluster.predecessor:
            self._cluster(environment.cluster.predecessor, configuration, api, provider, frozen=True)
        self.validation = ValidationDocument(self, "Checks")
        self._export_outputs(buckets, lustre, openzfs, repositories, api)

    def _cluster(
        self,
        name: str,
        configuration: Mapping[str, object],
        api: ParallelClusterApi,
        provider: ClusterProvider,
        *,
        frozen: bool = False,
    ) -> ClusterResource:
        cluster = self._environment.cluster
        resource = ClusterResource(
            self,
            # A cluster of another name is another resource, which is created before this one is deleted.
            f"Cluster-{name}",
            name=name,
            region=self._environment.region,
            configuration=configuration,
            api=api,
            service_token=provider.service_token,
            assets_version=self.assets.version,
            timeout_minutes=cluster.timeout_minutes,
            answer_minutes=cluster.answer_minutes,
            updates={_pascal(policy): value for policy, value in cluster.updates.model_dump().items()},
            frozen=frozen,
        )
        # The head node's first script downloads the assets.
        resource.node.add_dependency(self.assets.deployment)
        return resource

    def _references(
        self,
        network: Network,
        security_groups: SecurityGroups,
        buckets: Buckets,
        lustre: Mapping[str, LustreFileSystem],
        openzfs: OpenZfsFileSystem | None,
    ) -> References:
        cluster = self._environment.cluster
        return References(
            head_subnet_id=_subnet(network, cluster.head_node.subnet),
            compute_subnet_id=network.private_subnet.subnet_id,
            login_subnet_id=_subnet(network, cluster.login_nodes.subnet if cluster.login_nodes else "private"),
            head_security_group_ids=_ids(security_groups.head),
            compute_security_group_ids=_ids(security_groups.compute),
            login_security_group_ids=_ids(security_groups.login),
            lustre_ids={name: file_system.file_system_id for name, file_system in lustre.items()},
            openzfs_volume_ids=openzfs.volume_ids if openzfs else {},
            head_policy_arns=_arns(self.policies.head),
            compute_policy_arns=_arns(self.policies.compute),
            login_policy_arns=_arns(self.policies.login),
            data_bucket=buckets.data.bucket_name,
            checkpoints_bucket=buckets.checkpoints.bucket_name,
            assets_bucket=buckets.assets.bucket_name,
            entry_scripts=dict.fromkeys(get_args(EntryScript), self.assets.entry_script),
        )

    def _export_outputs(
        self,
        buckets: Buckets,
        lustre: Mapping[str, LustreFileSystem],
        openzfs: OpenZfsFileSystem | None,
        repositories: Mapping[str, ecr.IRepository],
        api: ParallelClusterApi,
    ) -> None:
        environment, cluster = self._environment, self.cluster
        outputs = Outputs(self, "Outputs", environment=environment.name)
        outputs.output("ClusterName", environment.cluster_name, "Name of the cluster in ParallelCluster")
        outputs.output("ClusterStatus", cluster.status, "Status when this stack was last deployed")
        outputs.output(
            "Connect",
            # As the cluster's user: ssm-user, the user of a plain session, exists on the head node only.
            f"aws ssm start-session --region {environment.region} --target {cluster.head_node_instance_id} "
            "--document-name AWS-StartInteractiveCommand "
            f"--parameters command='sudo -iu {CLUSTER_USERS[environment.cluster.os]}'",
            "Opens a shell on the head node",
        )
        outputs.output("HeadNodePrivateIp", cluster.head_node_private_ip, "Private address of the head node")
        outputs.output("ApiUrl", api.url, "ParallelCluster API")
        outputs.output("DataBucket", buckets.data.bucket_name, "Data sets")
        outputs.output("CheckpointsBucket", buckets.checkpoints.bucket_name, "Checkpoints and results")
        for name, repository in repositories.items():
            outputs.output(f"Repository{_camel(name)}", repository.repository_uri, f"ECR repository {name}")
        for name, file_system in lustre.items():
            outputs.output(f"Lustre{_camel(name)}", file_system.dns_name, f"FSx for Lustre file system {name}")
        if openzfs:
            outputs.output("OpenZfs", openzfs.dns_name, "FSx for OpenZFS file system")
        outputs.parameters(
            {
                "cluster/name": environment.cluster_name,
                "cluster/stack-arn": cluster.stack_arn,
                "cluster/status": cluster.status,
                "cluster/version": cluster.version,
                "head-node/instance-id": cluster.head_node_instance_id,
                "head-node/private-ip": cluster.head_node_private_ip,
                "validation/document": self.validation.document_name,
                "api/url": api.url,
                "api/user-role-arn": api.user_role_arn,
                "buckets/data": buckets.data.bucket_name,
                "buckets/checkpoints": buckets.checkpoints.bucket_name,
                "buckets/assets": buckets.assets.bucket_name,
                **{f"lustre/{name}/id": item.file_system_id for name, item in lustre.items()},
                **({"openzfs/id": openzfs.file_system_id} if openzfs else {}),
                **{f"repositories/{name}/uri": item.repository_uri for name, item in repositories.items()},
            }
        )


def _subnet(network: Network, wanted: str) -> str:
    if wanted == "private":
        return network.private_subnet.subnet_id
    if network.public_subnet is None:
        raise ValueError("A node is public, but the network has no public subnet: use egress nat, or name a subnet.")
    return network.public_subnet.subnet_id


def _ids(group: ec2.ISecurityGroup) -> tuple[str, ...]:
    return (group.security_group_id,)


def _arns(policy: iam.IManagedPolicy) -> tuple[str, ...]:
    return (policy.managed_policy_arn,)


def _pascal(key: str) -> str:
    """A key of the environment file as CloudFormation names properties: stop_fleet is StopFleet."""
    return "".join(part.capitalize() for part in key.split("_"))


def _camel(name: str) -> str:
    """A name as part of a logical id, which consists of letters and digits."""
    return "".join(part.capitalize() for part in "".join(c if c.isalnum() else " " for c in name).split())

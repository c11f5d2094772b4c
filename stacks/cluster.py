"""The cluster stack: cluster assets, the cluster, outputs for people and parameters for tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import aws_cdk as cdk
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from settings.model import Environment
from settings.shares import METADATA, is_shared, shares
from settings.stacks import pascal, topic_arn
from stacks.api import ApiStack
from stacks.environment_stack import EnvironmentStack
from stacks.network import NetworkStack
from stacks.storage import StorageStack
from trainyard.cluster_assets_publication import ClusterAssetsPublication
from trainyard.cluster_config import DatabaseReferences, NodeReferences, References, render
from trainyard.cluster_people import cluster_people
from trainyard.cluster_policies import ClusterPolicies
from trainyard.cluster_resource import ClusterResource
from trainyard.cluster_settings import CLUSTER_USERS, cluster_settings
from trainyard.head_node_documents import PeopleDocument, SessionDocument, UsageDocument, ValidationDocument
from trainyard.network import Network
from trainyard.parallelcluster_api import ParallelClusterApi
from trainyard.personas import Personas


class ClusterStack(EnvironmentStack):
    """The cluster on network, storage, images and API of its environment.

    Outputs of the stack, for people, and parameters below `/trainyard/<environment>/`, for tools, name what it made.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
        network: NetworkStack,
        storage: StorageStack,
        repositories: Mapping[str, ecr.IRepository],
        api: ApiStack,
        database: DatabaseReferences | None,
    ) -> None:
        holds = f"the Slurm cluster {environment.cluster_name}"
        super().__init__(scope, "cluster", environment=environment, holds=holds)
        if is_shared(environment):
            self.template_options.metadata = {METADATA: shares(environment)}
        buckets = storage.buckets
        names = {
            "data_bucket": buckets.data.bucket_name,
            "checkpoints_bucket": buckets.checkpoints.bucket_name,
            "assets_bucket": buckets.assets.bucket_name,
        }
        uris = {name: repository.repository_uri for name, repository in repositories.items()}
        policies = ClusterPolicies(
            self,
            "Policies",
            repositories=repositories.values(),
            buckets=buckets,
            topic_arns=_topics(environment),
        )
        assets = ClusterAssetsPublication(
            self,
            "Assets",
            bucket=buckets.assets,
            settings=cluster_settings(environment, repository_uris=uris, **names),
            hooks=environment.cluster.hooks,
            logs=self.function_logs,
            people=cluster_people(environment),
        )
        cluster, groups = environment.cluster, network.security_groups
        login_subnet = cluster.login_nodes.subnet if cluster.login_nodes else "private"
        head, compute, login = (
            NodeReferences(_subnet(network.network, subnet), group.security_group_id, policy.managed_policy_arn)
            for subnet, group, policy in (
                (cluster.head_node.subnet, groups.head, policies.head),
                ("private", groups.compute, policies.compute),
                (login_subnet, groups.login, policies.login),
            )
        )
        references = References(
            head=head,
            compute=compute,
            login=login,
            lustre_ids={name: file_system.file_system_id for name, file_system in storage.lustre.items()},
            openzfs_volume_ids=storage.openzfs.volume_ids if storage.openzfs else {},
            entry_script=assets.entry_script,
            database=database,
            **names,
        )
        configuration = render(environment, references)
        # A cluster of another name is another resource, which is created before this one is deleted.
        resources = [
            ClusterResource(
                self,
                f"Cluster-{name}",
                name=name,
                region=environment.region,
                configuration=configuration,
                api=api.api,
                service_token=api.provider.service_token,
                assets_version=assets.version,
                hooks=[f"{hook.role} {hook.when} {hook.script} {hook.sha256}" for hook in cluster.hooks],
                timeout_minutes=cluster.timeout_minutes,
                answer_minutes=cluster.answer_minutes,
                updates={pascal(policy): value for policy, value in cluster.updates.model_dump().items()},
                frozen=name == cluster.predecessor,
                generation=0 if name == cluster.predecessor else cluster.generation,
            )
            for name in (environment.cluster_name, cluster.predecessor)
            if name
        ]
        for resource in resources:
            # The head node's first script downloads the assets.
            resource.node.add_dependency(assets.deployment)
        self._export(environment, resources[0], storage, uris, api.api)
        self._export_people(environment, storage)

    def _export(
        self,
        environment: Environment,
        cluster: ClusterResource,
        storage: StorageStack,
        uris: Mapping[str, str],
        api: ParallelClusterApi,
    ) -> None:
        validation = ValidationDocument(self, "Checks")
        usage = UsageDocument(self, "Usage") if environment.cluster.slurm.accounting else None
        data, checkpoints = storage.buckets.data.bucket_name, storage.buckets.checkpoints.bucket_name
        lustre, openzfs = storage.lustre, storage.openzfs
        # As the cluster's user: ssm-user, the user of a plain session, exists on the head node only.
        connect = (
            f"aws ssm start-session --region {environment.region} --target {cluster.head_node_instance_id} "
            "--document-name AWS-StartInteractiveCommand "
            f"--parameters command='sudo -iu {CLUSTER_USERS[environment.cluster.os]}'"
        )
        outputs = [
            ("ClusterName", environment.cluster_name, "Name of the cluster in ParallelCluster"),
            ("ClusterStatus", cluster.status, "Status when this stack was last deployed"),
            ("Connect", connect, "Opens a shell on the head node"),
            ("HeadNodePrivateIp", cluster.head_node_private_ip, "Private address of the head node"),
            ("ApiUrl", api.url, "ParallelCluster API"),
            ("DataBucket", data, "Data sets"),
            ("CheckpointsBucket", checkpoints, "Checkpoints and results"),
            *((f"Repository{pascal(name)}", uri, f"ECR repository {name}") for name, uri in uris.items()),
            *((f"Lustre{pascal(k)}", item.dns_name, f"FSx for Lustre file system {k}") for k, item in lustre.items()),
            *([("OpenZfs", openzfs.dns_name, "FSx for OpenZFS file system")] if openzfs else []),
        ]
        parameters = {
            "cluster/name": environment.cluster_name,
            "cluster/stack-arn": cluster.stack_arn,
            "cluster/status": cluster.status,
            "cluster/version": cluster.version,
            "head-node/instance-id": cluster.head_node_instance_id,
            "head-node/private-ip": cluster.head_node_private_ip,
            "validation/document": validation.document_name,
            **({"usage/document": usage.document_name} if usage else {}),
            "api/url": api.url,
            "api/user-role-arn": api.user_role_arn,
            "buckets/data": data,
            "buckets/checkpoints": checkpoints,
            "buckets/assets": storage.buckets.assets.bucket_name,
            **{f"lustre/{name}/id": item.file_system_id for name, item in lustre.items()},
            **({"openzfs/id": openzfs.file_system_id} if openzfs else {}),
            **{f"repositories/{name}/uri": uri for name, uri in uris.items()},
        }
        self._write("Outputs", environment, outputs, parameters)

    def _export_people(self, environment: Environment, storage: StorageStack) -> None:
        """What applies people and shares to a running cluster, and the policies of those who work on it."""
        people = environment.people
        parameters: dict[str, str] = {}
        outputs: list[tuple[str, str, str]] = []
        if cluster_people(environment):
            parameters["people/document"] = PeopleDocument(self, "People").document_name
        if people.file or people.directory:
            session = SessionDocument(self, "Session").document_name
            parameters["people/session-document"] = session
            personas = Personas(
                self,
                "Personas",
                environment=environment,
                session_document=session,
                assets=storage.buckets.assets,
            )
            outputs = [
                (f"Policy{pascal(name)}", policy.managed_policy_arn, f"IAM policy of a cluster's {name}")
                for name, policy in personas.policies.items()
            ]
        if parameters:
            self._write("PeopleOutputs", environment, outputs, parameters)

    def _write(
        self,
        construct_id: str,
        environment: Environment,
        outputs: Sequence[tuple[str, str, str]],
        parameters: Mapping[str, str],
    ) -> None:
        scope = Construct(self, construct_id)
        for name, value, description in outputs:
            output = cdk.CfnOutput(scope, name, value=value, description=description)
            output.override_logical_id(name)
        for path, value in parameters.items():
            ssm.StringParameter(
                scope,
                f"Parameter-{path.replace('/', '-')}",
                parameter_name=f"/trainyard/{environment.name}/{path}",
                string_value=value,
            )


def _topics(environment: Environment) -> list[str]:
    """The topics of Slurm's mails, and of the alerts about budgets of teams if there are some."""
    if environment.observability.mode == "off":
        return []
    budgets = any(team.monthly_usd for team in environment.teams)
    return [topic_arn(environment, "jobs"), *([topic_arn(environment)] if budgets else [])]


def _subnet(network: Network, wanted: str) -> str:
    if wanted == "private":
        return network.private_subnet.subnet_id
    if network.public_subnet is None:
        raise ValueError("A node is public, but the network has no public subnet: use egress nat, or name a subnet.")
    return network.public_subnet.subnet_id

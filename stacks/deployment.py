"""All stacks of an environment, wired."""

from __future__ import annotations

from dataclasses import dataclass

import aws_cdk as cdk
from constructs import Construct

from settings.model import Environment
from stacks.api import ApiStack
from stacks.cluster import ClusterStack
from stacks.data_links import DataLinksStack
from stacks.images import ImagesStack
from stacks.network import NetworkStack
from stacks.storage import StorageStack
from trainyard.cluster_config.tags import ENVIRONMENT_TAG


@dataclass(frozen=True)
class Deployment:
    """The stacks of an environment."""

    network: NetworkStack
    storage: StorageStack
    data_links: DataLinksStack
    images: ImagesStack
    api: ApiStack
    cluster: ClusterStack


def compose(scope: Construct, environment: Environment) -> Deployment:
    """Build the stacks of `environment` in `scope`, an app or a stage.

    Network, images and API need nothing of each other, and data links and cluster nothing of each other, so that
    `cdk deploy --all --concurrency 4` runs them side by side.
    """
    env = cdk.Environment(account=environment.account, region=environment.region)
    retention = environment.retention

    def name(stack: str) -> str:
        return f"{environment.name}-{stack}"

    network = NetworkStack(
        scope,
        "network",
        environment=environment,
        env=env,
        stack_name=name("network"),
        description=f"Trainyard {environment.name}: VPC, subnets, security groups",
        # Kept file systems have their network interfaces in this stack's subnet.
        termination_protection=retention.file_systems == "keep",
    )
    storage = StorageStack(
        scope,
        "storage",
        environment=environment,
        network=network.network,
        security_groups=network.security_groups,
        env=env,
        stack_name=name("storage"),
        description=f"Trainyard {environment.name}: buckets, FSx for Lustre, FSx for OpenZFS",
        termination_protection="keep" in (retention.buckets, retention.file_systems),
    )
    data_links = DataLinksStack(
        scope,
        "data-links",
        environment=environment,
        buckets=storage.buckets,
        lustre=storage.lustre,
        env=env,
        stack_name=name("data-links"),
        description=f"Trainyard {environment.name}: Lustre folders tied to bucket prefixes",
    )
    images = ImagesStack(
        scope,
        "images",
        environment=environment,
        env=env,
        stack_name=name("images"),
        description=f"Trainyard {environment.name}: ECR repositories",
        termination_protection=retention.images == "keep",
    )
    api = ApiStack(
        scope,
        "api",
        environment=environment,
        cluster_stack_name=name("cluster"),
        env=env,
        stack_name=name("api"),
        description=f"Trainyard {environment.name}: ParallelCluster API and the cluster's custom resource",
    )
    cluster = ClusterStack(
        scope,
        "cluster",
        environment=environment,
        network=network.network,
        security_groups=network.security_groups,
        buckets=storage.buckets,
        lustre=storage.lustre,
        openzfs=storage.openzfs,
        repositories=images.repositories,
        api=api.api,
        provider=api.provider,
        env=env,
        stack_name=name("cluster"),
        description=f"Trainyard {environment.name}: the Slurm cluster {environment.cluster_name}",
    )
    for stack in (network, storage, data_links, images, api, cluster):
        _tag(stack, environment)
    return Deployment(network, storage, data_links, images, api, cluster)


def _tag(stack: cdk.Stack, environment: Environment) -> None:
    """Stack tags: CloudFormation puts them on all that it makes there."""
    for key, value in {**environment.tags, ENVIRONMENT_TAG: environment.name}.items():
        stack.add_stack_tag(key, value)

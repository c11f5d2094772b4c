"""All stacks of an environment, with their references to each other."""

from __future__ import annotations

from constructs import Construct

from settings.model import Environment
from stacks.api import ApiStack
from stacks.cluster import ClusterStack
from stacks.data_links import DataLinksStack
from stacks.images import ImagesStack
from stacks.network import NetworkStack
from stacks.storage import StorageStack


def compose(scope: Construct, environment: Environment) -> None:
    """Build the stacks of `environment` in `scope`, an app or a stage.

    Network, images and API do not depend on each other, nor do data links and cluster: `cdk deploy --all
    --concurrency 4` deploys them in parallel.
    """
    network = NetworkStack(scope, environment=environment)
    storage = StorageStack(scope, environment=environment, network=network)
    DataLinksStack(scope, environment=environment, storage=storage)
    images = ImagesStack(scope, environment=environment)
    api = ApiStack(scope, environment=environment)
    ClusterStack(
        scope, environment=environment, network=network, storage=storage, repositories=images.repositories, api=api
    )

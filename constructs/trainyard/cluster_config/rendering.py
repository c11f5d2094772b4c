"""The whole configuration, from its parts."""

from __future__ import annotations

from settings.model.environment import Environment
from trainyard.cluster_config.head_node import head_node
from trainyard.cluster_config.iam import cluster_iam
from trainyard.cluster_config.image import image
from trainyard.cluster_config.login_nodes import login_nodes
from trainyard.cluster_config.monitoring import monitoring
from trainyard.cluster_config.queues import queue
from trainyard.cluster_config.references import References
from trainyard.cluster_config.section import Section
from trainyard.cluster_config.shared_storage import shared_storage
from trainyard.cluster_config.slurm import slurm_settings
from trainyard.cluster_config.tags import tags


def render(environment: Environment, references: References) -> Section:
    """The ParallelCluster configuration of `environment`. The same input gives the same output.

    Raises:
        ValueError: `references` lacks the id of a file system or volume of the environment.
    """
    cluster = environment.cluster
    return {
        "Region": environment.region,
        "Image": image(cluster),
        "Imds": {"ImdsSupport": "v2.0"},
        "HeadNode": head_node(environment, references),
        **login_nodes(environment, references),
        "Scheduling": {
            "Scheduler": "slurm",
            "ScalingStrategy": cluster.slurm.scaling,
            "SlurmSettings": slurm_settings(cluster.slurm, managed_dns=environment.network.egress != "endpoints-only"),
            "SlurmQueues": [queue(settings, references, environment.region) for settings in cluster.queues],
        },
        **shared_storage(environment, references),
        "Monitoring": monitoring(environment),
        **cluster_iam(environment),
        "Tags": tags(environment),
    }

"""Operating system of all nodes, and AMIs of one's own."""

from __future__ import annotations

from settings.model.cluster import Cluster
from trainyard.cluster_config.section import Section


def image(cluster: Cluster) -> Section:
    """The top-level Image: the official AMI of the operating system, which can only change with a new cluster."""
    return {"Os": cluster.os}


def custom_image(ami: str | None) -> Section:
    """The Image of a node with an AMI of its own, built for the same operating system and ParallelCluster version."""
    return {"Image": {"CustomAmi": ami}} if ami else {}

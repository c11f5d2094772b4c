"""Whether jobs run on a cluster."""

from cluster_resource.api import ClusterApi, ClusterView
from cluster_resource.aws import Aws


def running(api: ClusterApi, aws: Aws, view: ClusterView) -> int | None:
    """How many jobs run; None where nobody can tell.

    No job runs without a compute node, which the API knows. Where there are some, Slurm itself is asked.

    Raises:
        ApiTrouble: the compute nodes could not be counted.
    """
    if api.compute_nodes(view.name) == 0:
        return 0
    return aws.running_jobs(view.head_node_instance_id) if view.head_node_instance_id else None


def sentence(count: int | None) -> str:
    if count is None:
        return "whether jobs run could not be found out (the head node does not answer through SSM)"
    return "1 job runs" if count == 1 else f"{count} jobs run"

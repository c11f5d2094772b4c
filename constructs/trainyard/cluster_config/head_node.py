"""The head node."""

from __future__ import annotations

from settings.model.environment import Environment
from trainyard.cluster_config.custom_actions import head_node_actions
from trainyard.cluster_config.iam import head_node_iam
from trainyard.cluster_config.image import custom_image
from trainyard.cluster_config.references import References
from trainyard.cluster_config.section import Section
from trainyard.cluster_config.volumes import root_volume

NOBODY = "127.0.0.1/32"
"""The source of ParallelCluster's own SSH rule, which would be the whole internet by default: an address that no packet
has. Who may open SSH stands in the environment's own security groups, nowhere else."""


def head_node(environment: Environment, references: References) -> Section:
    """The HeadNode. Of it, instance type, subnet, key, IMDS, volume and scripts can only change with a new cluster."""
    settings = environment.cluster.head_node
    ssh: Section = {"AllowedIps": NOBODY}
    if settings.key_name:
        ssh["KeyName"] = settings.key_name
    return {
        "InstanceType": settings.instance_type,
        **custom_image(settings.ami),
        "Networking": {
            "SubnetId": references.head_subnet_id,
            "AdditionalSecurityGroups": list(references.head_security_group_ids),
        },
        "Ssh": ssh,
        "LocalStorage": {"RootVolume": root_volume(settings.root_volume)},
        "Imds": {"Secured": True},
        **head_node_actions(references, environment.region),
        "Iam": head_node_iam(environment, references),
    }

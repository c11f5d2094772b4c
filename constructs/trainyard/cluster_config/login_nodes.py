"""The login nodes."""

from __future__ import annotations

from settings.model.environment import Environment
from trainyard.cluster_config.custom_actions import login_actions
from trainyard.cluster_config.head_node import NOBODY
from trainyard.cluster_config.iam import login_node_iam
from trainyard.cluster_config.references import References
from trainyard.cluster_config.section import Section


def login_nodes(environment: Environment, references: References) -> Section:
    """The LoginNodes with their one pool, if the environment has them. They take the head node's key."""
    settings = environment.cluster.login_nodes
    if settings is None:
        return {}
    pool: Section = {
        "Name": settings.name,
        "InstanceType": settings.instance_type,
        "Count": settings.count,
        "GracetimePeriod": settings.grace_minutes,
        "Networking": {
            "SubnetIds": [references.login_subnet_id],
            "AdditionalSecurityGroups": list(references.login_security_group_ids),
        },
        "Ssh": {"AllowedIps": NOBODY},
        **login_actions(references, environment.region),
        "Iam": login_node_iam(environment, references),
    }
    return {"LoginNodes": {"Pools": [pool]}}

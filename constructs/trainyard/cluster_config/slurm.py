"""Settings of the scheduler."""

from __future__ import annotations

from settings.model.cluster import Slurm
from trainyard.cluster_config.references import Section

# Slurm runs it as root on every compute node, before the node registers and then every five minutes, not on all nodes
# at once (CYCLE). The program is part of the bundle (cluster_assets/scans/node-health.sh); its path never changes.
# ParallelCluster sets none of these three parameters and allows users to set them.
HEALTH_CHECK = {
    "HealthCheckProgram": "/opt/trainyard/current/scans/node-health.sh",
    "HealthCheckInterval": "300",
    "HealthCheckNodeState": "ANY,CYCLE",
}


def slurm_settings(settings: Slurm, *, managed_dns: bool) -> Section:
    """The SlurmSettings; idle time in minutes.

    Without `managed_dns` nodes use their EC2 names: ParallelCluster would write their Slurm names to a zone of
    Route 53, which has no VPC endpoint.
    Source: ParallelCluster guide, "AWS ParallelCluster in a single subnet with no internet access".
    """
    section: Section = {
        "ScaledownIdletime": settings.scaledown_minutes,
        "QueueUpdateStrategy": settings.queue_update,
        "EnableMemoryBasedScheduling": settings.memory_scheduling,
    }
    # All strings, as in slurm.conf, one parameter in each item. The environment file's parameters come first.
    parameters = {name: str(value) for name, value in settings.settings.items()}
    given = {name.lower() for name in parameters}
    parameters |= {name: value for name, value in HEALTH_CHECK.items() if name.lower() not in given}
    section["CustomSlurmSettings"] = [{name: value} for name, value in parameters.items()]
    if not managed_dns:
        section["Dns"] = {"DisableManagedDns": True, "UseEc2Hostnames": True}
    if accounting := settings.accounting:
        section["Database"] = {
            "Uri": accounting.uri,
            "UserName": accounting.user,
            "PasswordSecretArn": accounting.password_secret_arn,
            **({"DatabaseName": accounting.database} if accounting.database else {}),
        }
    return section

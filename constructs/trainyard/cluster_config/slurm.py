"""Settings of the scheduler."""

from __future__ import annotations

from settings.model.cluster import Accounting, Slurm
from trainyard.cluster_config.section import Section

# Slurm runs it as root on every compute node, before the node registers and then every five minutes, not on all nodes
# at once (CYCLE). The bundle brings the program (cluster_assets/scans/node-health.sh); the path does not change with
# it. ParallelCluster sets none of these three and lets them be set.
HEALTH_CHECK = {
    "HealthCheckProgram": "/opt/trainyard/current/scans/node-health.sh",
    "HealthCheckInterval": "300",
    "HealthCheckNodeState": "ANY,CYCLE",
}


def slurm_settings(settings: Slurm, *, managed_dns: bool) -> Section:
    """The SlurmSettings; idle time in minutes.

    Without `managed_dns` nodes go by their EC2 names: Route 53, in whose zone ParallelCluster would write their Slurm
    names, has no VPC endpoint. Source: ParallelCluster guide, "AWS ParallelCluster in a single subnet with no internet
    access".
    """
    section: Section = {
        "ScaledownIdletime": settings.scaledown_minutes,
        "QueueUpdateStrategy": settings.queue_update,
        "EnableMemoryBasedScheduling": settings.memory_scheduling,
    }
    # Strings all: slurm.conf knows nothing else. One parameter an item; the file's own, in its order, come before ours.
    parameters = {name: str(value) for name, value in settings.settings.items()}
    given = {name.lower() for name in parameters}
    parameters |= {name: value for name, value in HEALTH_CHECK.items() if name.lower() not in given}
    section["CustomSlurmSettings"] = [{name: value} for name, value in parameters.items()]
    if not managed_dns:
        section["Dns"] = {"DisableManagedDns": True, "UseEc2Hostnames": True}
    if settings.accounting:
        section["Database"] = _database(settings.accounting)
    return section


def _database(settings: Accounting) -> Section:
    section: Section = {
        "Uri": settings.uri,
        "UserName": settings.user,
        "PasswordSecretArn": settings.password_secret_arn,
    }
    if settings.database:
        section["DatabaseName"] = settings.database
    return section

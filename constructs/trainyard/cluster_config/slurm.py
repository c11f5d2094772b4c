"""Settings of the scheduler."""

from __future__ import annotations

from settings.model.cluster import Accounting, Slurm
from trainyard.cluster_config.section import Section


def slurm_settings(settings: Slurm) -> Section:
    """The SlurmSettings; idle time in minutes."""
    section: Section = {
        "ScaledownIdletime": settings.scaledown_minutes,
        "QueueUpdateStrategy": settings.queue_update,
        "EnableMemoryBasedScheduling": settings.memory_scheduling,
    }
    if settings.settings:
        # Strings all: slurm.conf knows nothing else. One parameter an item, in the file's order.
        section["CustomSlurmSettings"] = [{name: str(value)} for name, value in settings.settings.items()]
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

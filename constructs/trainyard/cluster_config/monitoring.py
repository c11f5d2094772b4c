"""Logs, metrics, dashboard and alarms."""

from __future__ import annotations

from settings.model.environment import Environment
from trainyard.cluster_config.section import Section


def monitoring(environment: Environment) -> Section:
    """The Monitoring; logs are kept for days, and beyond the cluster's life unless the environment lets them go."""
    settings = environment.cluster.monitoring
    return {
        "DetailedMonitoring": settings.detailed,
        "Logs": {
            "CloudWatch": {
                "Enabled": True,
                "RetentionInDays": settings.log_days,
                "DeletionPolicy": "Retain" if environment.retention.logs == "keep" else "Delete",
            }
        },
        "Dashboards": {"CloudWatch": {"Enabled": settings.dashboard}},
        "Alarms": {"Enabled": settings.alarms},
    }

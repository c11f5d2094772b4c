"""Configuration of Prometheus and Alertmanager: the files of cluster_assets/monitoring/ with an environment's values.

The monitoring host runs both, and takes `prometheus.yml`, `rules/`, `alertmanager.yml` and `message.tmpl` in one
folder. In mode `managed` it runs Prometheus as an agent, and Amazon Managed Service for Prometheus takes `rules()` and
`managed_alertmanager()`. The laboratory uses the same functions with receivers of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from string import Template
from textwrap import indent
from typing import Any

FOLDER = Path(__file__).parents[2] / "cluster_assets" / "monitoring"
INTERVAL_S = 15
"""Between two scrapes, and between two evaluations of the rules."""
RUNBOOKS = "docs/runbooks.md"

Receiver = Mapping[str, Any]


def prometheus(cluster: str, head: str, *, interval_s: int = INTERVAL_S) -> str:
    """prometheus.yml of a server, which evaluates `rules/*.yml` in the folder of its configuration.

    Args:
        cluster: the environment's name, the label `cluster` of all series.
        head: private address of the head node.
        interval_s: seconds between two scrapes, at least 1.
    """
    return _prometheus("server.yml", cluster, head, interval_s)


def prometheus_agent(cluster: str, head: str, *, remote_write: str, region: str) -> str:
    """prometheus.yml of an agent, which keeps nothing and sends all series to a workspace, signed with SigV4.

    Args:
        cluster: the environment's name, the label `cluster` of all series.
        head: private address of the head node.
        remote_write: address of the workspace's API: `https://aps-workspaces.<region>.amazonaws.com/workspaces/<id>/api/v1/remote_write`.
        region: the workspace's region.
    """
    return _prometheus("agent.yml", cluster, head, INTERVAL_S, REMOTE_WRITE=remote_write, REGION=region)


def rules() -> dict[str, str]:
    """The rule files by name, without values of an environment."""
    return {file.name: file.read_text("utf-8") for file in sorted((FOLDER / "prometheus" / "rules").glob("*.yml"))}


def sns(topic_arn: str, region: str) -> Receiver:
    """The receiver of the environment's topic. Plain text; SNS refuses a subject of over 100 characters."""
    template = {name: f'{{{{ template "trainyard.{name}" . }}}}' for name in ("subject", "message")}
    return {"sns_configs": [{"topic_arn": topic_arn, "sigv4": {"region": region}, "send_resolved": True, **template}]}


def alertmanager(receiver: Receiver) -> str:
    """alertmanager.yml with one receiver: `sns()`, or `webhook_configs` and `email_configs` for tests."""
    # JSON is YAML, and takes values that YAML would read otherwise.
    return _rendered("alertmanager/alertmanager.yml", {"RECEIVER": json.dumps({"name": "notifications", **receiver})})


def message(runbooks: str | None = None) -> str:
    """message.tmpl: subject and text of a notification.

    Args:
        runbooks: address of the documentation's site. Default: messages name the page's file.
    """
    page = f"{runbooks.rstrip('/')}/runbooks/" if runbooks else RUNBOOKS
    return _rendered("alertmanager/message.tmpl", {"RUNBOOKS": page})


def managed_alertmanager(topic_arn: str, region: str, runbooks: str | None = None) -> str:
    """The alert manager definition of Amazon Managed Service for Prometheus: both files in one."""
    config, template = alertmanager(sns(topic_arn, region)), message(runbooks)
    # indent() leaves empty lines empty, which a literal block allows.
    template, config = indent(template, "    "), indent(config, "  ")
    return f"template_files:\n  message.tmpl: |\n{template}alertmanager_config: |\n{config}"


def _prometheus(rest: str, cluster: str, head: str, interval_s: int, **values: str) -> str:
    values |= {"CLUSTER": cluster, "HEAD_ADDRESS": head}
    values |= {"INTERVAL": f"{interval_s}s", "TIMEOUT": f"{min(10, interval_s)}s"}
    return "".join(_rendered(f"prometheus/{name}", values) for name in ("prometheus.yml", rest))


def _rendered(name: str, values: Mapping[str, str]) -> str:
    return Template((FOLDER / name).read_text("utf-8")).substitute(values)

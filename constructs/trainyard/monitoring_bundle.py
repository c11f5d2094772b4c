"""The bundle of the monitoring host: its scripts, configuration, dashboards and the list of pinned programs."""

from __future__ import annotations

import json
from collections.abc import Iterator

from settings.model import Environment
from trainyard import dashboards, monitoring_config
from trainyard.cluster_bundle import ASSETS, Bundle, archive

MONITORING = ASSETS / "monitoring"
HEAD = "head.trainyard"
"""Name of the head node on the host, whose refresh.sh keeps its address in /etc/hosts."""
_WORKSPACE = "https://WORKSPACE/"
"""Replaced on the host: the address of a workspace is known when the stack is deployed."""


def build(environment: Environment, topic_arn: str) -> Bundle:
    """The same bytes for the same environment."""
    return archive(dict(_members(environment, topic_arn)))


def _members(environment: Environment, topic_arn: str) -> Iterator[tuple[str, bytes]]:
    host = MONITORING / "host"
    for path in sorted(host.rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            yield f"host/{path.relative_to(host).as_posix()}", path.read_bytes()
    name, region, settings = environment.name, environment.region, environment.observability
    if settings.mode == "managed":
        remote = f"{_WORKSPACE}api/v1/remote_write"
        texts = {"prometheus.yml": monitoring_config.prometheus_agent(name, HEAD, remote_write=remote, region=region)}
    else:
        texts = {
            "prometheus.yml": monitoring_config.prometheus(name, HEAD),
            "alertmanager.yml": monitoring_config.alertmanager(monitoring_config.sns(topic_arn, region)),
            "message.tmpl": monitoring_config.message(settings.runbooks),
            **{f"rules/{file}": text for file, text in monitoring_config.rules().items()},
        }
    yield from ((f"config/{file}", text.encode()) for file, text in texts.items())
    yield from ((f"dashboards/{file}", text.encode()) for file, text in dashboards.render(environment).items())
    programs: dict[str, object] = {}
    for file in (MONITORING / "programs.json", host / "programs.json"):
        programs |= json.loads(file.read_text("utf-8"))
    yield "programs.json", json.dumps(programs, indent=1).encode()

"""A real Alertmanager with our configuration: one message for a fault of many nodes, and what that suppresses."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.stubs import Server, served
from trainyard import monitoring_config

pytestmark = pytest.mark.lab
LIMIT_S = 300
PROGRAMS = ("prometheus-alertmanager", "alertmanager")


def until(condition: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever it waits for
    """The first true answer."""
    end = time.monotonic() + LIMIT_S
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.2)
    return found


@pytest.fixture
def webhook() -> Iterator[Server]:
    with served("/") as server:
        yield server


@pytest.fixture
def alertmanager(tmp_path: Path, webhook: Server) -> Iterator[str]:
    """Address of the API of an Alertmanager that sends to the webhook."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if not program:
        pytest.fail("no Alertmanager: scripts/install-lab-packages.sh --tests installs it")
    (tmp_path / "message.tmpl").write_text(monitoring_config.message())
    config = tmp_path / "alertmanager.yml"
    # The webhook's own content is the group of alerts; the texts are rendered by other tests.
    config.write_text(monitoring_config.alertmanager({"webhook_configs": [{"url": webhook.url}]}))
    options = ["--web.listen-address=127.0.0.1:0", "--cluster.listen-address=", f"--storage.path={tmp_path / 'data'}"]
    log = tmp_path / "log"
    with log.open("w") as file:
        process = subprocess.Popen([program, f"--config.file={config}", *options], stderr=file, cwd=tmp_path)
    try:
        port = until(lambda: re.search(r"address=127\.0\.0\.1:([1-9]\d*)", log.read_text()))[1]
        yield f"http://127.0.0.1:{port}/api/v2/alerts"
    finally:
        process.kill()
        process.wait()


def send(api: str, *alerts: dict[str, str]) -> None:
    """Post firing alerts."""
    body = json.dumps([{"labels": {"cluster": "c", "severity": "page", **labels}} for labels in alerts]).encode()
    request = urllib.request.Request(api, body, {"Content-Type": "application/json"})  # noqa: S310 - loopback
    urllib.request.urlopen(request, timeout=60).close()  # noqa: S310


def inhibited(api: str) -> set[tuple[str, str]]:
    """Name and node or job of the alerts that others suppress."""
    with urllib.request.urlopen(api, timeout=60) as answer:  # noqa: S310
        alerts = json.load(answer)
    found = [alert["labels"] for alert in alerts if alert["status"]["inhibitedBy"]]
    return {(labels["alertname"], labels.get("node") or labels["job"]) for labels in found}


def test_a_switch_that_fails_sends_one_message(alertmanager: str, webhook: Server) -> None:
    nodes = [f"n{number}" for number in range(80)]
    send(alertmanager, *({"alertname": name, "node": node} for name in ("NodeDown", "GpuMissing") for node in nodes))
    send(alertmanager, {"alertname": "GpuMissing", "node": "other"})
    until(lambda: len(webhook.bodies) > 1)
    groups = {message["groupLabels"]["alertname"]: len(message["alerts"]) for message in webhook.bodies}
    assert groups == {"NodeDown": 80, "GpuMissing": 1} and len(webhook.bodies) == 2
    assert inhibited(alertmanager) == {("GpuMissing", node) for node in nodes}


def test_without_slurm_alerts_about_its_jobs_and_nodes_are_suppressed(alertmanager: str) -> None:
    send(alertmanager, {"alertname": "SlurmDown", "node": "head"})
    send(
        alertmanager,
        {"alertname": "JobWithoutProgress", "job": "17"},
        {"alertname": "NodeDown", "node": "n1"},
        {"alertname": "HeadDisk", "node": "head"},
    )
    until(lambda: inhibited(alertmanager) == {("JobWithoutProgress", "17"), ("NodeDown", "n1")})

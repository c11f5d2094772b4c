"""Prometheus' and Alertmanager's configuration, as their own tools read it, and the messages."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainyard import monitoring_config

TOPIC, REGION = "arn:aws:sns:us-east-1:111122223333:trainyard", "us-east-1"
WRITE = "https://aps-workspaces.us-east-1.amazonaws.com/workspaces/ws-1/api/v1/remote_write"
SERIES: dict[str, Any] = json.loads((Path(__file__).parent / "series.json").read_text("utf-8"))["series"]


def tool(*words: str | Path) -> str:
    """The output of promtool or amtool, which must succeed."""
    if not shutil.which(str(words[0])):
        pytest.fail(f"no {words[0]}: scripts/install-lab-packages.sh --tests installs it")
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What the monitoring host has."""
    (tmp_path / "rules").mkdir()
    for name, text in monitoring_config.rules().items():
        (tmp_path / "rules" / name).write_text(text)
    (tmp_path / "prometheus.yml").write_text(monitoring_config.prometheus("local", "10.0.0.5"))
    agent = monitoring_config.prometheus_agent("local", "10.0.0.5", remote_write=WRITE, region=REGION)
    (tmp_path / "agent.yml").write_text(agent)
    (tmp_path / "alertmanager.yml").write_text(monitoring_config.alertmanager(monitoring_config.sns(TOPIC, REGION)))
    (tmp_path / "message.tmpl").write_text(monitoring_config.message("https://example.com/docs"))
    return tmp_path


@pytest.mark.lab
def test_prometheus_accepts_its_configuration(folder: Path) -> None:
    output = tool("promtool", "check", "config", folder / "prometheus.yml")
    assert output.count("rules found") == len(monitoring_config.rules())
    tool("promtool", "check", "config", "--agent", folder / "agent.yml")
    content = yaml.safe_load((folder / "prometheus.yml").read_text())
    assert content["scrape_configs"][0]["http_sd_configs"][0]["url"] == "http://10.0.0.5:9101/targets"
    assert content["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] == ["127.0.0.1:9093"]
    agent = yaml.safe_load((folder / "agent.yml").read_text())
    assert agent["remote_write"] == [{"url": WRITE, "sigv4": {"region": REGION}}]
    assert not {"rule_files", "alerting"} & set(agent)


@pytest.mark.lab
def test_an_interval_of_one_second_has_a_timeout_that_fits(tmp_path: Path) -> None:
    (tmp_path / "p.yml").write_text(monitoring_config.prometheus("local", "::1", interval_s=1))
    tool("promtool", "check", "config", tmp_path / "p.yml")


def test_no_target_is_unlimited() -> None:
    for text in (
        monitoring_config.prometheus("c", "h"),
        monitoring_config.prometheus_agent("c", "h", remote_write=WRITE, region=REGION),
    ):
        for scraped in yaml.safe_load(text)["scrape_configs"]:
            assert "sample_limit" in scraped or scraped["job_name"] == "alertmanager"


def test_series_of_the_head_node_that_are_about_jobs_lose_its_name() -> None:
    [rule] = yaml.safe_load(monitoring_config.prometheus("c", "h"))["scrape_configs"][0]["metric_relabel_configs"]
    changed = {name for name in SERIES if re.fullmatch(rule["regex"], f"{name};head")}
    about_jobs = {
        name for name, about in SERIES.items() if "job" in about["labels"] and about["source"] == "slurm-exporter"
    }
    assert changed == about_jobs | {"slurm_jobs", "slurm_fair_share"}
    assert not any(re.fullmatch(rule["regex"], f"{name};gpu-st-node-1") for name in SERIES)


@pytest.mark.lab
def test_alertmanager_accepts_its_configuration(folder: Path) -> None:
    output = tool("amtool", "check-config", folder / "alertmanager.yml")
    assert "1 receivers" in output and "1 templates" in output and "2 inhibit rules" in output
    for severity in ("page", "warning"):
        words = ["config", "routes", "test", "--verify.receivers=notifications", f"severity={severity}", "alertname=X"]
        tool("amtool", *words, f"--config.file={folder / 'alertmanager.yml'}")


def test_inhibitions_name_alerts_that_exist() -> None:
    alerts = {
        rule["alert"]
        for text in monitoring_config.rules().values()
        for group in yaml.safe_load(text)["groups"]
        for rule in group["rules"]
        if "alert" in rule
    }
    for rule in yaml.safe_load(monitoring_config.alertmanager({}))["inhibit_rules"]:
        for matcher in rule["source_matchers"] + rule["target_matchers"]:
            names = re.split(r"\s*!?=~?\s*", matcher)[1].strip('"').split("|")
            assert set(names) <= alerts


def test_the_managed_service_takes_the_same_files() -> None:
    found = yaml.safe_load(monitoring_config.managed_alertmanager(TOPIC, REGION))
    assert set(found) == {"alertmanager_config", "template_files"}
    config = yaml.safe_load(found["alertmanager_config"])
    assert config == yaml.safe_load(monitoring_config.alertmanager(monitoring_config.sns(TOPIC, REGION)))
    assert config["templates"] == list(found["template_files"])
    assert found["template_files"]["message.tmpl"].strip() == monitoring_config.message().strip()
    # Its guide, "Configure alert manager to send messages to your Amazon SNS topic": SNS only, with a region, without
    # api_url and http_config; repeat_interval of five days at most.
    [receiver] = config["receivers"]
    assert set(receiver) == {"name", "sns_configs"} and "global" not in config
    assert {"api_url", "http_config"}.isdisjoint(receiver["sns_configs"][0])
    assert receiver["sns_configs"][0]["sigv4"] == {"region": REGION}
    assert config["route"]["routes"][0]["repeat_interval"] == "24h"


def alert(number: int, status: str = "firing", **labels: str) -> dict[str, Any]:
    """An alert as templates see it."""
    annotations = {
        "summary": f"GPU 3 of node n{number} reported Xid 79.",
        "jobs": "Job 17 of alice. ",
        "command": f"ssh n{number} dmesg",
    }
    return {"status": status, "labels": {"alertname": "XidError", **labels}, "annotations": annotations}


def rendered(folder: Path, name: str, alerts: list[dict[str, Any]], **common: str) -> str:
    """A template's text for alerts, by amtool."""
    labels = {"alertname": "XidError", "cluster": "jakarta", "severity": "page", **common}
    status = "firing" if any(item["status"] == "firing" for item in alerts) else "resolved"
    (folder / "data.json").write_text(json.dumps({"status": status, "alerts": alerts, "commonLabels": labels}))
    text = f'{{{{ template "trainyard.{name}" . }}}}'
    words = [
        f"--template.glob={folder / 'message.tmpl'}",
        f"--template.text={text}",
        f"--template.data={folder / 'data.json'}",
    ]
    return tool("amtool", "template", "render", *words).strip()


@pytest.mark.lab
def test_a_message_of_one_alert(folder: Path) -> None:
    assert rendered(folder, "subject", [alert(1)], node="n1") == "Page: XidError on n1"
    assert rendered(folder, "message", [alert(1)]) == (
        "GPU 3 of node n1 reported Xid 79. Job 17 of alice. \nRun: ssh n1 dmesg\n"
        "Cluster: jakarta\nRunbook: https://example.com/docs/runbooks/#xiderror"
    )


@pytest.mark.lab
def test_a_message_of_many_alerts_names_ten(folder: Path) -> None:
    alerts = [alert(number) for number in range(80)]
    assert rendered(folder, "subject", alerts) == "Page: XidError, 80 alerts in jakarta"
    text = rendered(folder, "message", alerts)
    assert text.count("Run: ") == 10 and "And more: 80 alerts in all." in text


@pytest.mark.lab
def test_a_message_of_a_job_and_of_its_end(folder: Path) -> None:
    subject = rendered(folder, "subject", [alert(1)], alertname="GpusIdleInJob", severity="warning", job="17")
    assert subject == "Warning: GpusIdleInJob of job 17 in jakarta"
    assert rendered(folder, "subject", [alert(1, "resolved")], node="n1") == "Resolved: XidError on n1"
    text = rendered(folder, "message", [alert(1, "resolved"), alert(2)])
    assert text.index("node n2") < text.index("Resolved:") < text.index("node n1")


@pytest.mark.lab
def test_sns_takes_every_subject(folder: Path) -> None:
    """At most 100 characters, with the longest names that the settings allow."""
    cluster, node, job = "c" * 25, f"{'q' * 25}-dy-{'c' * 25}-1000", "9" * 12
    done = [alert(1, "resolved")]
    for text in monitoring_config.rules().values():
        for name in re.findall(r"alert: (\w+)", text):
            about = {"job": job} if "Job" in name else {"node": node}
            assert len(rendered(folder, "subject", done, alertname=name, cluster=cluster, **about)) <= 100
            many = rendered(folder, "subject", done * 9999, alertname=name, cluster=cluster, **about)
            assert len(many) <= 100 and cluster in many


def test_without_a_documentation_site_messages_name_the_page() -> None:
    assert "Runbook: docs/runbooks.md#" in monitoring_config.message()

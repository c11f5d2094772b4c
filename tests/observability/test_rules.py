"""The alert rules: promtool runs the cases of rules/; every alert has both kinds; a changed threshold breaks one."""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainyard import monitoring_config

ROOT = Path(__file__).parents[2]
CASES = {one.name: yaml.safe_load(one.read_text()) for one in sorted((Path(__file__).parent / "rules").glob("*.yml"))}
FILES = {name: yaml.safe_load(text) for name, text in monitoring_config.rules().items()}
RULES = [rule for file in FILES.values() for group in file["groups"] for rule in group["rules"]]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
# Series of Prometheus and Alertmanager about themselves (their cmd/ and notify/ packages).
OWN = {
    "prometheus_rule_evaluation_failures_total",
    "prometheus_notifications_errors_total",
    "alertmanager_notifications_failed_total",
}
RUNBOOKS = (ROOT / "docs" / "runbooks.md").read_text("utf-8")


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """promtool of Debian's package prometheus."""
    if not shutil.which("promtool"):
        pytest.fail("no promtool: scripts/install-lab-packages.sh --tests installs it")
    return subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, check=False, timeout=300)


def seconds(text: str) -> int:
    """A duration of Prometheus."""
    number, unit = re.fullmatch(r"(\d+)([sm])", text).groups()  # type: ignore[union-attr]
    return int(number) * {"s": 1, "m": 60}[unit]


def staged(folder: Path, files: dict[str, Any], cases: list[dict[str, Any]]) -> Path:
    """A test file with its own copy of the rules."""
    for name, content in files.items():
        (folder / name).write_text(yaml.safe_dump(content))
    file = folder / "cases.yml"
    file.write_text(yaml.safe_dump({"rule_files": list(files), "evaluation_interval": "15s", "tests": cases}))
    return file


@pytest.mark.lab
@pytest.mark.parametrize("name", CASES)
def test_cases(name: str) -> None:
    done = promtool("test", "rules", Path(__file__).parent / "rules" / name)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_has_a_case_that_fires_and_one_that_does_not(alert: str) -> None:
    kinds = {"fires": False, "is silent": False}
    for case in (case for file in CASES.values() for case in file["tests"]):
        if match := re.match(rf"{alert} (fires|is silent)\b", case["name"]):
            given = [test["exp_alerts"] for test in case.get("alert_rule_test", ()) if test["alertname"] == alert]
            kinds[match[1]] |= any(given) if match[1] == "fires" else bool(given) and not any(given)
    assert all(kinds.values()), kinds


def test_a_healthy_cluster_is_tested_with_every_rule_file() -> None:
    assert {Path(file).name for file in CASES["healthy.yml"]["rule_files"]} == set(FILES)


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_says_how_urgent_it_is_and_what_to_do(alert: str) -> None:
    rule = ALERTS[alert]
    assert rule["labels"]["severity"] in ("page", "warning")
    assert {"summary", "command", "runbook"} <= set(rule["annotations"]) <= {"summary", "command", "runbook", "jobs"}
    # The monitoring host has no SSH, and commands start on the head node.
    assert not re.search(r"ssh (head|monitoring)", rule["annotations"]["command"])
    assert rule["annotations"]["runbook"] == f"{monitoring_config.RUNBOOKS}#{alert.lower()}"
    # Alertmanager groups by job: a label of Prometheus' own with that name would split a fault of many nodes.
    assert "job" not in rule["labels"]


@pytest.mark.lab
def test_names_and_intervals() -> None:
    assert len(ALERTS) == len([rule for rule in RULES if "alert" in rule])
    # Amazon Managed Service for Prometheus evaluates a group without an interval every minute.
    assert {group["interval"] for file in FILES.values() for group in file["groups"]} == {"15s"}
    done = promtool("check", "rules", *(monitoring_config.FOLDER / "prometheus" / "rules" / name for name in FILES))
    assert done.returncode == 0, done.stdout + done.stderr


def mutants(rule: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rule with one changed threshold, bit of a mask, or duration."""
    for match in re.finditer(r"(?<=([<>=/]) )\d+(\.\d+)?", rule["expr"]):
        number, more = float(match[0]), 2 if match[1] == "/" else 1.5
        for value in (number * more, number * 0.5) if number else (10.0,):
            changed = copy.deepcopy(rule)
            changed["expr"] = f"{rule['expr'][: match.start()]}{value:g}{rule['expr'][match.end() :]}"
            yield f"{match[0]} at {match.start()} is {value:g}", changed
    if wait := seconds(rule.get("for", "0s")):
        for value in (wait * 2, 0):
            yield f"for {value} s", {**rule, "for": f"{value}s"}


@pytest.mark.lab
@pytest.mark.parametrize("name", [rule.get("alert") or rule["record"] for rule in RULES])
def test_a_changed_threshold_breaks_a_case(name: str, tmp_path: Path) -> None:
    [rule] = [rule for rule in RULES if name in (rule.get("alert"), rule.get("record"))]
    # A recorded series is tested by the alerts that read it.
    readers = {name, *(alert for alert, one in ALERTS.items() if name in one["expr"])}
    found = [case for file in CASES.values() for case in file["tests"] if case["name"].split()[0] in readers]
    others = [one for one in RULES if one is not rule and ("record" in one or one["alert"] in readers)]
    survived = []
    for what, mutant in mutants(rule):
        rules = sorted([*others, mutant], key=lambda one: "alert" in one)
        group = {"name": "g", "interval": "15s", "rules": rules}
        done = promtool("test", "rules", staged(tmp_path, {"rules.yml": {"groups": [group]}}, found))
        survived += [what] if done.returncode == 0 else []
    assert not survived


def test_every_alert_has_its_runbook_and_every_runbook_its_alert() -> None:
    alerts, _, alarms = RUNBOOKS.partition("## Alarms of CloudWatch")
    assert re.findall(r"^### (\w+)$", alerts, re.MULTILINE) == sorted(ALERTS)
    # Templates of mode managed contain the alerts too, and a URL that is still a parameter has no name.
    sources = [
        *(ROOT / "tests" / "golden").glob("*/observability.template.json"),
        *ROOT.glob("constructs/trainyard/*.py"),
    ]
    link = r"runbooks\.md#(\w+)|runbook\(environment, ['\"](\w+)"
    linked = {"".join(name).lower() for file in sources for name in re.findall(link, file.read_text("utf-8"))}
    sections = {name.lower() for name in re.findall(r"^### (\w+)$", alarms, re.MULTILINE)}
    # GpusIdle exists in mode cloudwatch only, which has no golden.
    assert linked - {name.lower() for name in ALERTS} | {"gpusidle"} == sections


def test_a_page_is_sent_within_90_seconds() -> None:
    """From the fault to the message: an exporter reads, Prometheus scrapes and evaluates, Alertmanager groups."""
    interval = monitoring_config.INTERVAL_S
    route = yaml.safe_load(monitoring_config.alertmanager({}))["route"]
    # The first alert of a group waits for one, the next node with the same fault for the other.
    grouped, worst = max(seconds(route["group_wait"]), seconds(route["group_interval"])), {}
    for name, rule in ALERTS.items():
        # GpuThrottled wants two more samples.
        samples = 2 * interval if "sum_over_time" in rule["expr"] else 0
        worst[name] = 3 * interval + samples + seconds(rule.get("for", "0s")) + grouped
    pages = {worst[name] for name, rule in ALERTS.items() if rule["labels"]["severity"] == "page"}
    assert max(pages) <= 90
    text = (ROOT / "docs" / "observability.md").read_text("utf-8")
    assert f"at most {max(pages)} seconds" in text
    # A node that is lost: its exporter is the first sign, because Slurm waits longer.
    assert worst["ExporterDown"] - interval <= 90
    assert f"{worst['ExporterDown'] - interval} seconds after" in text


def test_series_are_in_the_table() -> None:
    table = set(json.loads((Path(__file__).parent / "series.json").read_text("utf-8"))["series"])
    known = table | {rule["record"] for rule in RULES if "record" in rule} | OWN
    for rule in RULES:
        text = rule["expr"] + "".join(rule.get("annotations", {}).values())
        names = set(
            re.findall(r"\b((?:DCGM|trainyard|slurm|training|node|prometheus|alertmanager|up)[\w:]*)(?=[{\[ )])", text)
        )
        assert {name for name in names if "_" in name} <= known, names - known

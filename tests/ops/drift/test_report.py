"""The report of the drift command in its formats."""

import io
import json
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console

from cli import main
from ops.drift.findings import Finding, Report
from ops.report import html, json_text, markdown, text
from ops.report.commands import drift_report
from ops.report.model import Report as Shown
from ops.review.structure import ABSENT


def report() -> Shown:
    group = "Head [x] (AWS::EC2::SecurityGroup sg-1)"
    found = Report(
        "demo",
        "111122223333",
        findings=[
            Finding("cluster", "demo", "Tags[a]", "1", "2", "Deploy."),
            Finding("demo-network", group, "ingress rule", ABSENT, "tcp 22 from | all"),
        ],
        checked=7,
        unchecked=Counter({"AWS::Scheduler::Schedule": 2}),
        missing=["demo-api: IAM refuses to <say>"],
        undeployed={"demo-images": 1},
        simulated=True,
    )
    return drift_report(found)


def test_text() -> None:
    stream = io.StringIO()
    text(report(), Console(file=stream, width=200, highlight=False))
    assert stream.getvalue().splitlines() == [
        "Drift: 2 differences from what was deployed, in cluster, demo-network.",
        "Drift of demo in 111122223333 (simulated: emulated AWS)",
        "",
        "Differences",
        "cluster  demo",
        "    property: Tags[a]",
        "    deployed: 1",
        "    actual: 2",
        "    do: Deploy.",
        "demo-network  Head [x] (AWS::EC2::SecurityGroup sg-1)",
        "    property: ingress rule",
        "    deployed: none",
        "    actual: tcp 22 from | all",
        "",
        "Not compared: demo-api: IAM refuses to <say>",
        "",
        "Not deployed yet (this is not drift): the file differs from the deployed templates in 1 resource, "
        "demo-images (1). To see the effect: trainyard diff",
        "",
        "Neither CloudFormation nor this command compares 2 resources: AWS::Scheduler::Schedule (2).",
    ]


def test_other_formats() -> None:
    lines = markdown(report()).splitlines()
    assert "> [!CAUTION]" in lines
    assert "| cluster | demo | `Tags[a]` | `1` | `2` | Deploy. |" in lines
    assert any("`tcp 22 from \\| all`" in line for line in lines)
    assert "Not compared: demo-api: IAM refuses to &lt;say>" in lines
    assert "<say>" not in html(report()) and "&lt;say&gt;" in html(report())
    found = json.loads(json_text(report()))
    assert (found["level"], found["exit"], found["undeployed"]) == ("drift", 1, {"demo-images": 1})
    assert found["findings"][1]["expected"] is None


def test_no_credentials(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "us-east-1")
    assert main(["drift", "local", "--on", "aws"]) == 4
    assert "keys of account 000000000000" in capsys.readouterr().err

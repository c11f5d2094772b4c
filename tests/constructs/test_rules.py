"""The templates against cdk-nag's AwsSolutions rules and against cfn-lint."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from cdk_nag import AwsSolutionsChecks
from cfnlint.config import ConfigMixIn
from cfnlint.decode.decode import decode_str
from cfnlint.match import Match
from cfnlint.rules import Rules
from cfnlint.runner import Runner, run_template_by_data

from settings.model import Environment
from tests.constructs.stacks_of import app_without_bundling, build, environment

_LUSTRE: dict[str, Any] = {
    "name": "training",
    "mount": "/fsx",
    "capacity_gib": 4800,
    "throughput": 1000,
    "efa": True,
    "associations": [{"path": "/data", "bucket": "data", "prefix": "data/", "export_events": ["new"]}],
}
_OPENZFS: dict[str, Any] = {
    "capacity_gib": 64,
    "volumes": [{"name": name, "mount": f"/{name}", "snapshots": {}} for name in ("home", "shared")],
}
ENVIRONMENTS = {
    "kept, by NAT": environment(
        network={"clients": ["203.0.113.0/24"]},
        storage={"lustre": [_LUSTRE], "openzfs": _OPENZFS},
        images={"build": {"every_days": 7}},
    ),
    "deleted, endpoints only": environment(
        network={"egress": "endpoints-only"},
        storage={"lustre": [{**_LUSTRE, "backups": {"days": 1}, "metadata_iops": 6000}], "openzfs": _OPENZFS},
        retention={"buckets": "delete-with-data", "file_systems": "delete", "images": "delete", "logs": "delete"},
    ),
}


@pytest.mark.parametrize("settings", ENVIRONMENTS.values(), ids=ENVIRONMENTS.keys())
def test_aws_solutions_rules_and_cfn_lint_find_nothing(settings: Environment, tmp_path: Path) -> None:
    app = app_without_bundling(tmp_path)
    build(app, settings)
    rules_find_nothing(app, tmp_path)


def test_cfn_lint_would_not_let_a_fault_pass() -> None:
    template = {"Resources": {"Bucket": {"Type": "AWS::S3::Bucket", "Properties": {"BucketNam": "typo"}}}}
    [match] = cfn_lint(template)
    assert match.rule.id == "E3002"


@cache
def _rules() -> Rules:
    """The rules of cfn-lint. It takes a second to load them."""
    return Runner(ConfigMixIn()).rules


def cfn_lint(template: dict[str, Any], region: str = "us-east-1", ignored: Iterable[str] = ()) -> list[Match]:
    """What cfn-lint finds in a template, without the checks in `ignored`, for example W3005."""
    read, faults = decode_str(json.dumps(template))
    assert faults == []
    config = ConfigMixIn(regions=[region], ignore_checks=list(ignored))
    return list(run_template_by_data(read, config, _rules()))


def rules_find_nothing(app: cdk.App, folder: Path) -> None:
    """Synthesize into `folder`, and check every template there."""
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    app.synth()  # fails with cdk-nag's findings
    templates = sorted(folder.glob("*.template.json"))
    assert templates
    # W3005: CDK itself writes DependsOn in addition to a GetAtt for each function and its role.
    matches = {file.name: cfn_lint(json.loads(file.read_text("utf-8")), ignored=["W3005"]) for file in templates}
    assert [f"{name}: {one.rule.id} {one.path}: {one.message}" for name in matches for one in matches[name]] == []

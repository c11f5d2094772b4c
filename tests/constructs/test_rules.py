"""The templates against cdk-nag's AwsSolutions rules and against cfn-lint."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from cdk_nag import AwsSolutionsChecks

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


def rules_find_nothing(app: cdk.App, folder: Path) -> None:
    """Synthesize into `folder`, and check every template there."""
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    app.synth()  # fails with cdk-nag's findings
    # W3005: CDK itself writes DependsOn in addition to a GetAtt for each function and its role.
    command = [str(Path(sys.executable).with_name("cfn-lint")), "--format", "json", "--ignore-checks", "W3005", "--"]
    templates = map(str, folder.glob("*.template.json"))
    linted = subprocess.run([*command, *templates], capture_output=True, text=True, check=False)
    assert json.loads(linted.stdout) == []

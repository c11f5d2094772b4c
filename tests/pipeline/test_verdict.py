"""`trainyard gate` on the assembly of a stage: the real CDK diff and a fake CloudFormation."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from cli import main
from ops.cost.prices import Prices
from ops.review import cdk, command
from ops.review.verdict import Level, Verdict
from tests.pipeline.conftest import Synthesis

pytestmark = pytest.mark.xdist_group("pipeline")

Templates = dict[str, dict[str, Any]]


class CloudFormation:
    """Deployed templates and statuses, by stack name."""

    def __init__(self, templates: Mapping[str, Mapping[str, Any]], statuses: Mapping[str, str] | None = None) -> None:
        self._templates = templates
        self._statuses = statuses or {}

    def client(self, _: str) -> CloudFormation:
        return self

    def describe_stacks(self, StackName: str) -> dict[str, Any]:  # noqa: N803 - boto3's
        if StackName not in self._templates:
            message = f"Stack with id {StackName} does not exist"
            raise ClientError({"Error": {"Code": "ValidationError", "Message": message}}, "DescribeStacks")
        return {"Stacks": [{"StackStatus": self._statuses.get(StackName, "UPDATE_COMPLETE")}]}

    def get_template(self, StackName: str, TemplateStage: str) -> dict[str, Any]:  # noqa: N803
        assert TemplateStage == "Original", "what was sent, before the CloudFormation transforms"
        return {"TemplateBody": self._templates[StackName]}


@dataclass
class Gate:
    """The command, and what is deployed when it runs: at first dev as it is synthesized."""

    assembly: Path
    deployed: Templates
    output: Path
    monkeypatch: pytest.MonkeyPatch

    def run(self, statuses: Mapping[str, str] | None = None) -> int:
        """Run it: the exit status."""
        cloudformation = CloudFormation(self.deployed, statuses)
        self.monkeypatch.setattr(boto3, "Session", lambda region_name: cloudformation)  # noqa: ARG005
        return main(["gate", "dev", "--assembly", str(self.assembly), "--output", str(self.output)])

    def verdict(self) -> tuple[str, str]:
        """Level and permissions."""
        assert self.run() == 0
        return self.variables["LEVEL"], self.variables["PERMISSIONS"]

    @property
    def variables(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.read("variables").splitlines())

    def read(self, file: str) -> str:
        return (self.output / file).read_text("utf-8")

    def resource(self, stack: str, kind: str) -> dict[str, Any]:
        """Properties of the first deployed resource of a type."""
        found: dict[str, Any] = first(self.deployed[stack], kind)["Properties"]
        return found

    def edit_assembly(self, folder: Path) -> Path:
        """Judge a copy, which a test changes."""
        shutil.copytree(self.assembly, folder)
        self.assembly = folder
        return folder


@pytest.fixture
def dev(synthesis: Synthesis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gate:
    deployed = {f"dev-{name}": copy.deepcopy(template) for name, template in synthesis.stage_templates("dev").items()}
    return Gate(synthesis.folder / "assembly-dev", deployed, tmp_path / "out", monkeypatch)


def first(template: dict[str, Any], kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next(item for item in template["Resources"].values() if item["Type"] == kind)
    return found


def test_unchanged_stacks(dev: Gate) -> None:
    assert dev.verdict() == ("nothing", "same")
    assert dev.variables["HEADLINE"] == "NOTHING: the deployment is what the file says"
    assert "No permission is broadened." in dev.read("verdict.md")
    assert json.loads(dev.read("verdict.json"))["level"] == "nothing"


def test_first_deployment_is_safe_and_brings_permissions(dev: Gate) -> None:
    del dev.deployed["dev-promotion"]
    assert dev.verdict() == ("safe", "changed")
    assert "dev-promotion" in dev.variables["HEADLINE"]
    assert "ssm:SendCommand" in dev.read("permissions.txt")
    assert "**Permissions are broadened, or may be.**" in dev.read("verdict.md")


def test_new_file_system_is_destructive(dev: Gate) -> None:
    dev.resource("dev-storage", "AWS::FSx::FileSystem")["LustreConfiguration"]["PerUnitStorageThroughput"] = 250
    assert dev.verdict() == ("destructive", "same")
    assert dev.variables["HEADLINE"].startswith("DESTRUCTIVE: FSx FileSystem dev-storage-training")


def test_approvals_and_reports_name_what_the_change_costs(dev: Gate) -> None:
    """dev: one p5.48xlarge more than what is deployed, at the price that the user gives."""
    deployed = dev.resource("dev-cluster", "Custom::ParallelCluster")["Configuration"]
    deployed["HeadNode"]["InstanceType"] = "x9.unknown"
    dev.monkeypatch.setattr(Prices, "instance", lambda _self, kind, _capacity="": None if kind == "x9.unknown" else 7.5)
    assert dev.run() == 0
    sentence = "This change costs USD 7.50 more per hour idle, USD 7.50 more per hour at full size"
    assert f"{sentence}; 1 of the changes have no known price." in dev.variables["HEADLINE"]
    assert dev.variables["HEADLINE"].startswith("DESTRUCTIVE: ")
    assert len(dev.variables["HEADLINE"]) <= command.HEADLINE_CHARACTERS
    assert "This change costs $7.50 more per hour idle" in dev.read("verdict.md")
    cost = json.loads(dev.read("verdict.json"))["cost"]
    assert (cost["idle_usd_per_hour"], cost["storage_usd_per_month"]) == (7.5, 0)
    assert cost["unknown"] == ["1 -> 0 x head node x9.unknown"]


def test_broader_policy(dev: Gate) -> None:
    for item in dev.deployed["dev-promotion"]["Resources"].values():
        if item["Type"] == "AWS::IAM::Policy":
            for statement in item["Properties"]["PolicyDocument"]["Statement"]:
                if statement.get("Sid") == "Document":
                    statement["Resource"] += "-narrower"
    assert dev.verdict() == ("safe", "changed")
    assert "document/dev-cluster-*" in dev.read("permissions.txt")


def test_opened_port_changes_permissions(dev: Gate) -> None:
    resources = dev.deployed["dev-network"]["Resources"]
    del resources[next(key for key, item in resources.items() if item["Type"] == "AWS::EC2::SecurityGroupIngress")]
    assert dev.verdict()[1] == "changed"


def test_removed_statement_broadens_nothing(dev: Gate) -> None:
    more = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}
    dev.resource("dev-promotion", "AWS::IAM::Policy")["PolicyDocument"]["Statement"].append(more)
    assert dev.verdict() == ("safe", "same")
    assert dev.read("permissions.txt") == "No permission is broadened.\n"


def test_removed_boundary_changes_permissions(dev: Gate) -> None:
    """The cluster's and the API's; the CDK counts neither."""
    boundary = "arn:aws:iam::111122223333:policy/boundary"
    dev.resource("dev-cluster", "Custom::ParallelCluster")["Configuration"]["Iam"] = {"PermissionsBoundary": boundary}
    dev.resource("dev-api", "AWS::CloudFormation::Stack")["Parameters"]["PermissionsBoundaryPolicy"] = boundary
    assert dev.verdict() == ("safe", "changed")
    assert f"cluster dev: Iam.PermissionsBoundary: {boundary} -> none" in dev.read("permissions.txt")
    assert f"Parameters.PermissionsBoundaryPolicy: {boundary} -> none" in dev.read("permissions.txt")
    assert "**Permissions are broadened, or may be.**" in dev.read("verdict.md")
    assert len(json.loads(dev.read("verdict.json"))["permissions"]) == 2


def test_administrator_behind_an_open_port(dev: Gate, tmp_path: Path) -> None:
    assembly = dev.edit_assembly(tmp_path / "assembly")
    [file] = [file for file in assembly.glob("*.template.json") if "Custom::ParallelCluster" in file.read_text("utf-8")]
    template = json.loads(file.read_text("utf-8"))
    head = first(template, "Custom::ParallelCluster")["Properties"]["Configuration"]["HeadNode"]
    head["Iam"]["AdditionalIamPolicies"].append({"Policy": "arn:aws:iam::aws:policy/AdministratorAccess"})
    head["Ssh"]["AllowedIps"] = "0.0.0.0/0"
    file.write_text(json.dumps(template), "utf-8")
    assert dev.verdict() == ("safe", "changed")
    assert "AdministratorAccess" in dev.read("permissions.txt")
    assert "HeadNode.Ssh.AllowedIps: 127.0.0.1/32 -> 0.0.0.0/0" in dev.read("permissions.txt")


def test_assembly_of_another_environment(dev: Gate, synthesis: Synthesis, capsys: pytest.CaptureFixture[str]) -> None:
    dev.assembly = synthesis.folder / "assembly-prod"
    assert dev.run() == 4
    assert "is not an assembly of dev in us-west-2: it has prod-api" in capsys.readouterr().err
    assert not dev.output.exists()


@pytest.mark.parametrize("status", ["ROLLBACK_COMPLETE", "ROLLBACK_FAILED"])
def test_stack_whose_creation_failed(status: str, dev: Gate, capsys: pytest.CaptureFixture[str]) -> None:
    """No change set updates it, so every deployment after a verdict would fail."""
    dev.deployed = {"dev-storage": {}, "dev-network": {}}
    assert dev.run({"dev-storage": status}) == 4
    said = capsys.readouterr().err
    assert f"the stack dev-storage is in {status}" in said
    assert "dev-network" not in said
    assert "aws cloudformation delete-stack --stack-name dev-storage --region us-west-2" in said
    assert not dev.output.exists()


@pytest.mark.parametrize(("status", "level"), [("REVIEW_IN_PROGRESS", "safe"), ("UPDATE_ROLLBACK_COMPLETE", "nothing")])
def test_stack_in_another_state(status: str, level: str, dev: Gate) -> None:
    assert dev.run({"dev-promotion": status}) == 0
    assert dev.variables["LEVEL"] == level


def test_folder_without_an_assembly(dev: Gate, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dev.assembly = tmp_path
    assert dev.run() == 4
    assert "has no synthesized stacks" in capsys.readouterr().err
    assert not dev.output.exists()


def test_failing_cdk_diff(dev: Gate, tmp_path: Path) -> None:
    del dev.deployed["dev-promotion"]
    dev.monkeypatch.setattr(cdk, "SCRIPT", tmp_path / "missing.mjs")
    assert dev.run() == 4
    assert not dev.output.exists()


def test_headline_has_nothing_that_a_shell_or_a_pipeline_evaluates(monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'DESTRUCTIVE: "a" \\ $(b) `c`\n#{d.E} {f}; <g> ' + "x" * 400
    monkeypatch.setattr(Verdict, "headline", property(lambda _: text))
    monkeypatch.setattr(Verdict, "level", property(lambda _: Level.DESTRUCTIVE))
    verdict = object.__new__(Verdict)
    level, permissions, headline = command.variables(verdict, changed=True).splitlines()
    assert (level, permissions) == ("LEVEL=destructive", "PERMISSIONS=changed")
    assert headline.startswith("HEADLINE=DESTRUCTIVE: a  (b) cd.E f; g xxx")
    assert len(headline) == len("HEADLINE=") + command.HEADLINE_CHARACTERS
    assert headline.endswith(" ...")

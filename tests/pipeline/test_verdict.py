"""`trainyard gate` on the assembly of a stage: the real CDK diff, and a CloudFormation that a test fills."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from cli import main
from ops.review import cdk, gate
from ops.review.verdict import Level, Verdict
from tests.pipeline.conftest import Synthesis

pytestmark = pytest.mark.xdist_group("pipeline")

Templates = dict[str, dict[str, Any]]


class CloudFormation:
    """What is deployed, by the stack's name."""

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

    def get_template(self, StackName: str, TemplateStage: str) -> dict[str, Any]:  # noqa: ARG002, N803
        return {"TemplateBody": self._templates[StackName]}


@pytest.fixture
def standing(synthesis: Synthesis) -> Templates:
    """All of dev, as it is going to be deployed."""
    return {f"dev-{name}": copy.deepcopy(template) for name, template in synthesis.stage_templates("dev").items()}


def judged(
    synthesis: Synthesis,
    deployed: Templates,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    assembly: Path | None = None,
) -> dict[str, str]:
    monkeypatch.setattr(boto3, "Session", lambda region_name: CloudFormation(deployed))  # noqa: ARG005
    assembly = assembly or synthesis.folder / "assembly-dev"
    assert main(["gate", "dev", "--assembly", str(assembly), "--output", str(folder)]) == 0
    lines = (folder / "variables").read_text("utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines)


def resource(template: dict[str, Any], kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next(item for item in template["Resources"].values() if item["Type"] == kind)
    return found


def test_what_stands_already_needs_nobody(
    synthesis: Synthesis, standing: Templates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = judged(synthesis, standing, tmp_path, monkeypatch)
    assert said == {
        "LEVEL": "nothing",
        "PERMISSIONS": "same",
        "HEADLINE": "NOTHING: the deployment is what the file says",
    }
    assert "No permission is broadened." in (tmp_path / "verdict.md").read_text("utf-8")
    assert json.loads((tmp_path / "verdict.json").read_text("utf-8"))["level"] == "nothing"


def test_a_first_deployment_is_safe_and_brings_permissions(
    synthesis: Synthesis, standing: Templates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del standing["dev-promotion"]
    said = judged(synthesis, standing, tmp_path, monkeypatch)
    assert (said["LEVEL"], said["PERMISSIONS"]) == ("safe", "changed")
    assert "dev-promotion" in said["HEADLINE"]
    assert "ssm:SendCommand" in (tmp_path / "permissions.txt").read_text("utf-8")
    assert "**Permissions are broadened, or may be.**" in (tmp_path / "verdict.md").read_text("utf-8")


def test_a_new_file_system_is_destructive_and_changes_no_permissions(
    synthesis: Synthesis, standing: Templates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lustre = resource(standing["dev-storage"], "AWS::FSx::FileSystem")
    lustre["Properties"]["LustreConfiguration"]["PerUnitStorageThroughput"] = 250
    said = judged(synthesis, standing, tmp_path, monkeypatch)
    assert (said["LEVEL"], said["PERMISSIONS"]) == ("destructive", "same")
    assert said["HEADLINE"].startswith("DESTRUCTIVE: FSx FileSystem dev-storage-training")


def test_a_broader_policy_alone_is_told(
    synthesis: Synthesis, standing: Templates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = standing["dev-promotion"]
    for item in template["Resources"].values():
        if item["Type"] == "AWS::IAM::Policy":
            for statement in item["Properties"]["PolicyDocument"]["Statement"]:
                if statement.get("Sid") == "Document":
                    statement["Resource"] += "-narrower"
    said = judged(synthesis, standing, tmp_path, monkeypatch)
    assert (said["LEVEL"], said["PERMISSIONS"]) == ("safe", "changed")
    assert "document/dev-cluster-*" in (tmp_path / "permissions.txt").read_text("utf-8")


def test_an_open_port_is_told(
    synthesis: Synthesis, standing: Templates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resources = standing["dev-network"]["Resources"]
    key = next(key for key, item in resources.items() if item["Type"] == "AWS::EC2::SecurityGroupIngress")
    del resources[key]
    assert judged(synthesis, standing, tmp_path, monkeypatch)["PERMISSIONS"] == "changed"


def test_a_statement_that_is_taken_away_broadens_nothing(
    synthesis: Synthesis, standing: Templates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = resource(standing["dev-promotion"], "AWS::IAM::Policy")
    more = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}
    policy["Properties"]["PolicyDocument"]["Statement"].append(more)
    said = judged(synthesis, standing, tmp_path, monkeypatch)
    assert (said["LEVEL"], said["PERMISSIONS"]) == ("safe", "same")
    assert (tmp_path / "permissions.txt").read_text("utf-8") == "No permission is broadened.\n"


def test_a_boundary_that_is_taken_away_is_told(
    synthesis: Synthesis, standing: Templates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster's and the API's own; the CDK counts neither."""
    boundary = "arn:aws:iam::111122223333:policy/boundary"
    cluster = resource(standing["dev-cluster"], "Custom::ParallelCluster")
    cluster["Properties"]["Configuration"]["Iam"] = {"PermissionsBoundary": boundary}
    api = resource(standing["dev-api"], "AWS::CloudFormation::Stack")
    api["Properties"]["Parameters"]["PermissionsBoundaryPolicy"] = boundary
    said = judged(synthesis, standing, tmp_path, monkeypatch)
    assert (said["LEVEL"], said["PERMISSIONS"]) == ("safe", "changed")
    told = (tmp_path / "permissions.txt").read_text("utf-8")
    assert f"cluster dev: Iam.PermissionsBoundary: {boundary} -> none" in told
    assert f"Parameters.PermissionsBoundaryPolicy: {boundary} -> none" in told
    assert "**Permissions are broadened, or may be.**" in (tmp_path / "verdict.md").read_text("utf-8")
    assert len(json.loads((tmp_path / "verdict.json").read_text("utf-8"))["permissions"]) == 2


def test_an_administrator_behind_an_open_port_is_told(
    synthesis: Synthesis, standing: Templates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assembly = tmp_path / "assembly"
    shutil.copytree(synthesis.folder / "assembly-dev", assembly)
    [file] = [file for file in assembly.glob("*.template.json") if "Custom::ParallelCluster" in file.read_text("utf-8")]
    template = json.loads(file.read_text("utf-8"))
    head = resource(template, "Custom::ParallelCluster")["Properties"]["Configuration"]["HeadNode"]
    head["Iam"]["AdditionalIamPolicies"].append({"Policy": "arn:aws:iam::aws:policy/AdministratorAccess"})
    head["Ssh"]["AllowedIps"] = "0.0.0.0/0"
    file.write_text(json.dumps(template), "utf-8")
    said = judged(synthesis, standing, tmp_path / "out", monkeypatch, assembly)
    assert (said["LEVEL"], said["PERMISSIONS"]) == ("safe", "changed")
    told = (tmp_path / "out" / "permissions.txt").read_text("utf-8")
    assert "AdministratorAccess" in told
    assert "HeadNode.Ssh.AllowedIps: 127.0.0.1/32 -> 0.0.0.0/0" in told


def test_an_assembly_of_another_environment_gets_no_verdict(
    synthesis: Synthesis, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["gate", "dev", "--assembly", str(synthesis.folder / "assembly-prod"), "--output", str(tmp_path)]
    assert main(arguments) == 4
    assert "is not an assembly of dev in us-west-2: it has prod-api" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("status", ["ROLLBACK_COMPLETE", "ROLLBACK_FAILED"])
def test_a_stack_whose_creation_failed_gets_no_verdict(
    status: str,
    synthesis: Synthesis,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No change set updates it: every deployment behind a verdict would fail."""
    cloudformation = CloudFormation({"dev-storage": {}, "dev-network": {}}, {"dev-storage": status})
    monkeypatch.setattr(boto3, "Session", lambda region_name: cloudformation)  # noqa: ARG005
    assembly = str(synthesis.folder / "assembly-dev")
    assert main(["gate", "dev", "--assembly", assembly, "--output", str(tmp_path / "out")]) == 4
    said = capsys.readouterr().err
    assert f"the stack dev-storage is in {status}" in said
    assert "dev-network" not in said
    assert "aws cloudformation delete-stack --stack-name dev-storage --region us-west-2" in said
    assert "Only resources that its template retains stay" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("status", ["REVIEW_IN_PROGRESS", "UPDATE_ROLLBACK_COMPLETE"])
def test_other_states_get_a_verdict(
    status: str, synthesis: Synthesis, standing: Templates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloudformation = CloudFormation(standing, {"dev-promotion": status})
    monkeypatch.setattr(boto3, "Session", lambda region_name: cloudformation)  # noqa: ARG005
    assembly = str(synthesis.folder / "assembly-dev")
    assert main(["gate", "dev", "--assembly", assembly, "--output", str(tmp_path / "out")]) == 0
    level = "LEVEL=safe" if status == "REVIEW_IN_PROGRESS" else "LEVEL=nothing"
    assert level in (tmp_path / "out" / "variables").read_text("utf-8")


def test_no_assembly_gets_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gate", "dev", "--assembly", str(tmp_path), "--output", str(tmp_path / "out")]) == 4
    assert "has no synthesized stacks" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_diff_that_fails_gets_no_verdict(
    synthesis: Synthesis, standing: Templates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del standing["dev-promotion"]
    monkeypatch.setattr(cdk, "SCRIPT", tmp_path / "missing.mjs")
    monkeypatch.setattr(boto3, "Session", lambda region_name: CloudFormation(standing))  # noqa: ARG005
    assembly = str(synthesis.folder / "assembly-dev")
    assert main(["gate", "dev", "--assembly", assembly, "--output", str(tmp_path / "out")]) == 4
    assert not (tmp_path / "out").exists()


def test_a_headline_holds_nothing_that_a_shell_or_a_pipeline_evaluates(monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'DESTRUCTIVE: "a" \\ $(b) `c`\n#{d.E} {f}; <g> ' + "x" * 400
    monkeypatch.setattr(Verdict, "headline", property(lambda _: text))
    monkeypatch.setattr(Verdict, "level", property(lambda _: Level.DESTRUCTIVE))
    verdict = object.__new__(Verdict)
    level, permissions, headline = gate.variables(verdict, changed=True).splitlines()
    assert (level, permissions) == ("LEVEL=destructive", "PERMISSIONS=changed")
    assert headline.startswith("HEADLINE=DESTRUCTIVE: a  (b) cd.E f; g xxx")
    assert len(headline) == len("HEADLINE=") + gate.HEADLINE_CHARACTERS
    assert headline.endswith(" ...")

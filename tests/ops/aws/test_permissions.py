"""What a deployment needs of the account, and the questions before it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli import main
from ops.aws import deployment, permissions
from ops.preflight.aws import Aws, Denied
from ops.problem import Problem
from tests.cluster_config.builder import environment
from tests.ops.preflight.account import ACCOUNT, refusal

ROLE = "arn:${AWS::Partition}:iam::%s:role/cdk-hnb659fds-%s-%s-us-east-1"
PARAMETER = "/cdk-bootstrap/hnb659fds/version"


@pytest.fixture
def assembly(tmp_path: Path) -> Path:
    """The parts of a cloud assembly that are read, as aws-cdk-lib 2.275 writes them."""
    manifest = {"requiresBootstrapStackVersion": 6, "bootstrapStackVersionSsmParameter": PARAMETER}
    stack = {
        "assumeRoleArn": ROLE % (ACCOUNT, "deploy-role", ACCOUNT),
        "cloudFormationExecutionRoleArn": ROLE % (ACCOUNT, "cfn-exec-role", ACCOUNT),
    }
    artifacts = {
        "a.assets": {"type": "cdk:asset-manifest", "properties": manifest},
        "a": {"type": "aws:cloudformation:stack", "properties": stack},
    }
    (tmp_path / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))
    publishing = {"assumeRoleArn": ROLE % (ACCOUNT, "file-publishing-role", ACCOUNT)}
    (tmp_path / "a.assets.json").write_text(json.dumps({"files": {"x": {"destinations": {"y": publishing}}}}))
    return tmp_path


class Caller(Aws):
    """Credentials whose policies allow `allowed`, and a bootstrap stack of a version."""

    def __init__(self, arn: str, allowed: tuple[str, ...] = (), version: object = 6) -> None:
        self.arn, self.allowed, self.version = arn, allowed, version
        self.sources: set[str] = set()

    def call(self, service: str, operation: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - boto3's
        if service == "sts":
            return {"Arn": self.arn}
        if operation == "get_role":
            return {"Role": {"Arn": f"arn:aws:iam::{ACCOUNT}:role/path/{arguments['RoleName']}"}}
        if isinstance(self.version, Exception):
            raise self.version
        assert arguments == {"Name": PARAMETER}
        return {"Parameter": {"Value": str(self.version)}}

    def items(self, *_: str, **arguments: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401 - boto3's
        if not self.allowed:
            raise Denied("iam:SimulatePrincipalPolicy")
        self.sources.add(arguments["PolicySourceArn"])
        for action in arguments["ActionNames"]:
            decision = "allowed" if action in self.allowed else "implicitDeny"
            yield {"EvalActionName": action, "EvalDecision": decision}


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (5, "version 5, and version 6 is needed"),
        (refusal("ParameterNotFound", "none", "GetParameter"), "no bootstrap stack"),
    ],
    ids=["too old", "absent"],
)
def test_a_missing_or_old_bootstrap_stack_is_named_with_its_command(
    version: object, words: str, assembly: Path
) -> None:
    caller = Caller("", version=version)
    with pytest.raises(Problem, match=words) as raised:
        permissions.require_bootstrap(caller, environment(), assembly)
    assert f"cdk bootstrap aws://{ACCOUNT}/us-east-1" in str(raised.value)


def test_an_unknown_bootstrap_version_is_reported(assembly: Path) -> None:
    assert permissions.require_bootstrap(Caller("", version=9), environment(), assembly) == ""
    unknown = permissions.require_bootstrap(Caller("", version=Denied("ssm:GetParameter")), environment(), assembly)
    assert "ssm:GetParameter" in unknown


def test_missing_permissions_by_name(assembly: Path) -> None:
    caller = Caller(f"arn:aws:sts::{ACCOUNT}:assumed-role/Operator/me", allowed=("ec2:DescribeVpcs",))
    found, unknown = permissions.missing(caller, environment(), assembly, ("ec2:DescribeVpcs", "ec2:DescribeSubnets"))
    assert unknown == ""
    assert found == [
        f"sts:AssumeRole on arn:aws:iam::{ACCOUNT}:role/cdk-hnb659fds-deploy-role-{ACCOUNT}-us-east-1",
        f"sts:AssumeRole on arn:aws:iam::{ACCOUNT}:role/cdk-hnb659fds-file-publishing-role-{ACCOUNT}-us-east-1",
        "ec2:DescribeSubnets",
    ]
    assert caller.sources == {f"arn:aws:iam::{ACCOUNT}:role/path/Operator"}


def test_without_the_simulator_nothing_is_claimed(assembly: Path) -> None:
    found, unknown = permissions.missing(Caller(f"arn:aws:iam::{ACCOUNT}:user/me"), environment(), assembly, ("x:Y",))
    assert found == []
    assert "iam:SimulatePrincipalPolicy" in unknown
    root = Caller(f"arn:aws:iam::{ACCOUNT}:root", allowed=("x:Y",))
    assert permissions.missing(root, environment(), assembly, ("a:B",)) == ([], "")
    federated = Caller(f"arn:aws:sts::{ACCOUNT}:federated-user/somebody", allowed=("x:Y",))
    found, unknown = permissions.missing(federated, environment(), assembly, ("a:B",))
    assert (found, "of users and roles only" in unknown) == ([], True)


def test_no_question_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False)
    with pytest.raises(Problem, match="--yes"):
        deployment.confirm("Deploy?", "yes", yes=False)
    deployment.confirm("Deploy?", "yes", yes=True)


@pytest.mark.parametrize(("typed", "accepted"), [("small", True), (" small ", True), ("y", False), ("", False)])
def test_the_answer_is_a_word(typed: str, accepted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _: typed)
    if accepted:
        deployment.confirm("Remove?", "small", yes=False)
    else:
        with pytest.raises(Problem, match="Nothing was changed"):
            deployment.confirm("Remove?", "small", yes=False)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["up", "local", "--yes"], "--yes: only with --on aws"),
        (["up", "local", "--on", "aws", "--no-hello"], "--no-hello: only with the emulated AWS"),
        (["down", "local", "--on", "aws", "--force"], "--force: only with the emulated AWS"),
    ],
)
def test_options_of_the_other_place_are_refused(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 4
    assert words in capsys.readouterr().err

"""The command against a stub of AWS: what it calls, what it says, how it ends."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from cli import main, verdicts
from cli.parser import CHECKS, parser
from ops.validation import head_node
from ops.validation.command import wishes as wishes_of
from ops.validation.plan import CHECKS as CHECKS_OF_THE_PLAN
from ops.validation.plan import Wishes
from settings import load
from tests.ops.validation.fakes import FACTS, HEALTHY
from trainyard.pipeline.actions import VALIDATION as ACTIONS

ENVIRONMENTS = Path(__file__).resolve().parents[3] / "environments"

HEAD, DOCUMENT, COMMAND = "i-0123456789abcdef0", "local-cluster-ChecksDocument", "11111111-2222-3333-4444-555555555555"
TAGS = [
    {"Name": "tag:parallelcluster:cluster-name", "Values": ["local"]},
    {"Name": "tag:parallelcluster:node-type", "Values": ["HeadNode"]},
]


class Aws:
    """Clients that answer what was queued and nothing else, and the actions that were called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        session = boto3.Session("key", "secret", region_name="us-east-1")
        self.ssm, self.ec2 = session.client("ssm"), session.client("ec2")
        self.stubs = {"ssm": Stubber(self.ssm), "ec2": Stubber(self.ec2)}
        self.called: list[str] = []
        for name, client in (("ssm", self.ssm), ("ec2", self.ec2)):
            self.stubs[name].activate()
            client.meta.events.register("before-parameter-build", self._note)
        clients = {"ssm": self.ssm, "ec2": self.ec2}

        class Session:
            def client(self, name: str) -> Any:  # noqa: ANN401 - boto3's own
                return clients[name]

        monkeypatch.setattr(verdicts, "_session", lambda _environment: Session())
        monkeypatch.setattr(head_node, "_FIRST_PAUSE_S", 0.0)

    def _note(self, model: Any, **_rest: object) -> None:  # noqa: ANN401 - botocore's own
        self.called.append(f"{model.service_model.signing_name}:{model.name}")

    def deployed(self) -> None:
        parameter = {"Parameter": {"Name": "x", "Value": DOCUMENT}}
        self.stubs["ssm"].add_response("get_parameter", parameter, {"Name": "/trainyard/local/validation/document"})
        self.instances("running")

    def instances(self, *states: str) -> None:
        found = [{"InstanceId": HEAD[:-1] + str(index), "State": {"Name": name}} for index, name in enumerate(states)]
        answer = {"Reservations": [{"Instances": found}]}
        self.stubs["ec2"].add_response("describe_instances", answer, {"Filters": TAGS})

    def answers(self, request: str, status: str = "Success", *, out: object = "", err: str = "", code: int = 0) -> None:
        stub = self.stubs["ssm"]
        wanted = {
            "InstanceIds": [HEAD], "DocumentName": DOCUMENT, "Parameters": {"Request": [request]},
            "TimeoutSeconds": head_node.DELIVERY_S,
        }  # fmt: skip
        stub.add_response("send_command", {"Command": {"CommandId": COMMAND}}, wanted)
        stub.add_client_error("get_command_invocation", "InvocationDoesNotExist")
        for now in ("Pending", "InProgress", status):
            text = out if isinstance(out, str) else json.dumps(out)
            answer = {"Status": now, "StatusDetails": now, "ResponseCode": code}
            answer |= {"StandardOutputContent": text, "StandardErrorContent": err}
            stub.add_response("get_command_invocation", answer, {"CommandId": COMMAND, "InstanceId": HEAD})


def validate(*arguments: str) -> int:
    return main(["validate", "--on", "aws", *arguments])


def test_the_command_line_names_the_checks_of_the_plan() -> None:
    """Its own tuple, because importing the plan takes a second."""
    assert tuple(CHECKS_OF_THE_PLAN) == CHECKS


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    yield Aws(monkeypatch)


def test_a_passing_scan(aws: Aws, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    aws.deployed()
    aws.answers("facts", out=FACTS)
    aws.answers("scan", out=HEALTHY)
    file = tmp_path / "report.json"
    assert validate("local", "--only", "head-scan", "--format", "json", "--output", str(file)) == 0
    report = json.loads(file.read_text())
    assert (report["passed"], report["exit"], report["head_node"]) == (True, 0, HEAD)
    assert [line["outcome"] for line in report["lines"]] == ["passed"]
    assert set(aws.called) == set(ACTIONS)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("form", ["text", "markdown", "json", "html"])
def test_a_failing_scan_in_every_form(aws: Aws, capsys: pytest.CaptureFixture[str], form: str) -> None:
    line = {"name": "pyxis", "verdict": "failure", "found": "off | <no>", "wanted": "on", "action": "run it [again]"}
    aws.deployed()
    aws.answers("facts", out=FACTS)
    aws.answers("scan", out={**HEALTHY, "verdict": "failure", "lines": [line]})
    assert validate("local", "--only", "head-scan", "--format", form) == 1
    said = capsys.readouterr().out
    assert "FAILED: head-scan on head node head (0 passed, 1 failed)" in said
    assert "pyxis" in said and "run it [again]" in said
    assert form != "markdown" or "off \\| &lt;no>" in said


def problem(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert validate("local", *options) == 4
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return said


def test_no_cluster(aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
    aws.stubs["ssm"].add_client_error("get_parameter", "ParameterNotFound")
    assert "Deploy it first: cdk deploy --all" in problem(capsys)


@pytest.mark.parametrize(("states", "words"), [((), "no instance has its tags"), (("stopped",), "is stopped")])
def test_no_head_node(aws: Aws, capsys: pytest.CaptureFixture[str], states: tuple[str, ...], words: str) -> None:
    aws.stubs["ssm"].add_response("get_parameter", {"Parameter": {"Value": DOCUMENT}})
    aws.instances(*states)
    said = problem(capsys)
    assert "has no running head node" in said and words in said


def test_no_agent(aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
    aws.deployed()
    aws.stubs["ssm"].add_client_error("send_command", "InvalidInstanceId", "not in a valid state for account 1")
    said = problem(capsys)
    assert "Systems Manager has no agent on the head node" in said and "not in a valid state" in said


def test_an_agent_that_takes_nothing(aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
    aws.deployed()
    aws.answers("facts", "TimedOut", err="never delivered")
    assert "it ended as TimedOut: never delivered" in problem(capsys)


@pytest.mark.parametrize(
    ("service", "call", "permission"),
    [
        ("ssm", "get_parameter", "ssm:GetParameter"),
        ("ec2", "describe_instances", "ec2:DescribeInstances"),
        ("ssm", "send_command", "ssm:SendCommand"),
        ("ssm", "get_command_invocation", "ssm:GetCommandInvocation"),
    ],
)
def test_a_permission_that_is_missing_is_named(
    aws: Aws, capsys: pytest.CaptureFixture[str], service: str, call: str, permission: str
) -> None:
    if call != "get_parameter":
        aws.stubs["ssm"].add_response("get_parameter", {"Parameter": {"Value": DOCUMENT}})
    if service == "ssm" and call != "get_parameter":
        aws.instances("running")
    if call == "get_command_invocation":
        aws.stubs["ssm"].add_response("send_command", {"Command": {"CommandId": COMMAND}})
    code = "UnauthorizedOperation" if service == "ec2" else "AccessDeniedException"
    aws.stubs[service].add_client_error(call, code, "is not authorized")
    assert permission in ACTIONS
    assert f"may not do {permission} on" in problem(capsys)


def test_assets_without_the_validation(aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
    aws.deployed()
    aws.answers("facts", "Failed", err="bash: request.sh: No such file or directory", code=127)
    assert "Run the bootstrap there" in problem(capsys)


def test_the_file_names_the_image_and_what_must_be_asked(
    aws: Aws, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A pipeline's gate gives no options: what it insists on stands in the environment's file."""
    file = tmp_path / "local.yaml"
    text = (ENVIRONMENTS / "local.yaml").read_text("utf-8")
    file.write_text(f"{text}\nvalidation:\n  image: pytorch\n  required: [nccl, storage]\n", "utf-8")
    aws.deployed()
    aws.answers("facts", out={**FACTS, "images": ["other"]})
    assert validate(str(file)) == 4
    assert "The image pytorch is not on the cluster; imported are: other" in capsys.readouterr().err
    said = load(file).validation

    def wishes(*options: str) -> Wishes:
        given = parser().parse_args(["validate", "local", *options])
        return wishes_of(
            said,
            only=given.only,
            skip=given.skip,
            nodes=given.nodes,
            image=given.image,
            storage_percent=given.storage_percent,
        )

    assert wishes() == Wishes(insisted=("nccl", "storage"), image="pytorch")
    assert wishes("--skip", "nccl", "--image", "mine").insisted == ("storage",)
    assert wishes("--image", "mine").image == "mine"
    assert wishes("--only", "hello-gpu").insisted == ("hello-gpu",)


def test_a_check_that_does_not_exist_is_a_fault_of_the_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "local.yaml"
    text = (ENVIRONMENTS / "local.yaml").read_text("utf-8")
    file.write_text(f"{text}\nvalidation:\n  required: [speed]\n", "utf-8")
    assert validate(str(file)) == 4
    said = capsys.readouterr().err
    assert "validation.required" in said and "speed" in said and "storage" in said and "Traceback" not in said


def test_an_image_that_is_not_there(aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
    aws.deployed()
    aws.answers("facts", out={**FACTS, "images": ["other"]})
    assert "imported are: other" in problem(capsys, "--image", "pytorch")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--only", "nothing"], "'nothing'; allowed, joined by commas: head-scan, scan"),
        (["--nodes", "0"], "allowed: 1 to 64"),
        (["--format", "pdf"], "invalid choice"),
        (["--only", "scan", "--skip", "nccl"], "not allowed with"),
    ],
)
def test_wrong_use(capsys: pytest.CaptureFixture[str], options: list[str], words: str) -> None:
    with pytest.raises(SystemExit) as end:
        validate("local", *options)
    assert end.value.code == 4
    assert words in capsys.readouterr().err


def test_an_unknown_environment(capsys: pytest.CaptureFixture[str]) -> None:
    assert validate("no-such-environment") == 4
    assert "no-such-environment" in capsys.readouterr().err


def test_a_pipeline_that_stops_its_step_interrupts_it() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), verdicts._terminated_as_interrupted():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)
    assert signal.getsignal(signal.SIGTERM) is before

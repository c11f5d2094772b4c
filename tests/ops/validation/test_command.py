"""The command with stubbed AWS clients: its calls, its report and its errors."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore import xform_name

from cli import main, verdicts
from cli.parser import CHECKS, parser
from ops.problem import Problem
from ops.validation import head_node, history
from ops.validation.command import selection_of
from ops.validation.plan import CHECKS as CHECKS_OF_THE_PLAN
from ops.validation.plan import Selection
from settings import environment_file, load
from tests.ops.head_node_stub import COMMAND, HEAD, HeadNodeStub
from tests.ops.validation.fakes import FACTS, HEALTHY
from trainyard.pipeline.actions import VALIDATION as ACTIONS


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[HeadNodeStub]:
    """The account; the parameter of the fixture is the clients' endpoint."""
    stub = HeadNodeStub("validation", endpoint=getattr(request, "param", None))
    monkeypatch.setattr(verdicts, "session_of", lambda _environment: stub)
    monkeypatch.setattr("ops.preflight.aws.require_account", lambda *_: None)
    monkeypatch.setattr(head_node, "_FIRST_PAUSE_S", 0.0)
    yield stub
    stub.ended()


def validate(*arguments: str) -> int:
    return main(["validate", "--on", "aws", *arguments])


def problem(capsys: pytest.CaptureFixture[str], *options: str, environment: str = "local") -> str:
    """What the command writes to stderr when it ends without a verdict."""
    assert validate(environment, *options) == 4
    errors = capsys.readouterr().err
    assert "Traceback" not in errors
    return errors


def test_checks_of_the_command_line_are_those_of_the_plan() -> None:
    """The parser has its own tuple, because the import of the plan takes a second."""
    assert CHECKS_OF_THE_PLAN == CHECKS


@pytest.mark.parametrize("form", ["text", "markdown", "json", "html"])
@pytest.mark.parametrize(
    ("aws", "simulated"), [(None, False), ("http://127.0.0.1:4600", True)], indirect=["aws"], ids=["aws", "simulated"]
)
def test_failed_scan_in_every_form(
    aws: HeadNodeStub, simulated: bool, form: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The endpoint decides what is simulated, as a promotion in the emulated AWS gives `--on aws`."""
    line = {"name": "pyxis", "verdict": "failure", "found": "off | <no>", "wanted": "on", "action": "run it [again]"}
    aws.deployed("running")
    aws.answers("facts", out=FACTS)
    aws.answers("history", status="Failed", err="invalid choice: 'history'", code=2)
    aws.answers("scan", out={**HEALTHY, "verdict": "failure", "lines": [line]})
    monkeypatch.setattr(history, "keep", lambda *_: None)
    assert validate("local", "--only", "head-scan", "--format", form) == 1
    report, progress = capsys.readouterr()
    verdict = "FAILED (simulated)" if simulated else "FAILED"
    assert f"{verdict}: head-scan on head node head (0 passed, 1 failed)" in report
    assert ("simulated: off | " in report.replace("\\|", "|")) is simulated
    assert ("simulated: the emulated AWS" in progress) is simulated
    assert "earlier runs are not compared" in progress
    assert "pyxis" in report and "run it [again]" in report
    assert form != "markdown" or "off \\| &lt;no>" in report
    if form == "json":
        assert json.loads(report)["simulated"] is simulated
    else:
        notice = "emulated AWS: nothing was measured of GPUs, EFA, Lustre"
        assert (notice in report.partition("pyxis")[0]) is simulated


def test_passed_scan(
    aws: HeadNodeStub, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[str] = []
    monkeypatch.setattr(history, "keep", lambda _node, _run, report: kept.append(report))
    aws.deployed("running")
    aws.answers("facts", out=FACTS)
    before = {"run": "1", "time": "2026-11-21T00:00:00Z", "passed": True, "headline": "PASSED", "figures": {}}
    aws.answers("history", out={"runs": [before]})
    aws.answers("scan", out=HEALTHY)
    file = tmp_path / "report.json"
    assert validate("local", "--only", "head-scan", "--format", "json", "--output", str(file)) == 0
    report = json.loads(file.read_text())
    assert (report["passed"], report["exit"], report["head_node"]) == (True, 0, HEAD)
    assert [line["outcome"] for line in report["lines"]] == ["passed"]
    assert report["earlier"] == [before] and json.loads(kept[0]) == report | {"earlier": []}
    assert set(aws.sent) == set(ACTIONS)
    assert capsys.readouterr().out == ""


def test_missing_cluster(aws: HeadNodeStub, capsys: pytest.CaptureFixture[str]) -> None:
    aws.stubs["ssm"].add_client_error("get_parameter", "ParameterNotFound")
    assert "Deploy it first: cdk deploy --all" in problem(capsys)


@pytest.mark.parametrize(
    ("states", "text"),
    [
        ((), "has no running head node: no instance has its tags"),
        (("stopped",), "is stopped"),
        (("running", "running"), "has several running head nodes"),
    ],
)
def test_head_node_is_not_found(
    aws: HeadNodeStub, capsys: pytest.CaptureFixture[str], states: tuple[str, ...], text: str
) -> None:
    aws.deployed(*states)
    assert text in problem(capsys)


def test_missing_agent(aws: HeadNodeStub, capsys: pytest.CaptureFixture[str]) -> None:
    aws.deployed("running")
    aws.stubs["ssm"].add_client_error("send_command", "InvalidInstanceId", "not in a valid state for account 1")
    errors = problem(capsys)
    assert "Systems Manager has no agent on the head node" in errors and "not in a valid state" in errors


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"status": "TimedOut", "err": "never delivered"}, "it ended as TimedOut: never delivered"),
        ({"status": "Failed", "err": "request.sh: No such file", "code": 127}, "Run the bootstrap there"),
        ({"status": "Failed", "err": "x\nvalidation: no settings", "code": 1}, "no settings"),
        ({"out": FACTS | {"images": ["other"]}}, "The image pytorch is not on the cluster; imported are: other"),
    ],
)
def test_answers_without_a_verdict(
    aws: HeadNodeStub, capsys: pytest.CaptureFixture[str], answer: dict[str, Any], text: str
) -> None:
    aws.deployed("running")
    aws.answers("facts", **answer)
    assert text in problem(capsys, "--image", "pytorch")


@pytest.mark.parametrize("permission", ACTIONS)
def test_missing_permission_is_named(aws: HeadNodeStub, capsys: pytest.CaptureFixture[str], permission: str) -> None:
    service, _, action = permission.partition(":")
    calls = ["get_parameter", "describe_instances", "send_command", "get_command_invocation"]
    before = calls[: calls.index(xform_name(action))]
    if len(before) > 1:
        aws.deployed("running")
    elif before:
        aws.has_parameter(aws.parameter, aws.document)
    if "send_command" in before:
        aws.stubs["ssm"].add_response("send_command", {"Command": {"CommandId": COMMAND}})
    code = "UnauthorizedOperation" if service == "ec2" else "AccessDeniedException"
    aws.stubs[service].add_client_error(xform_name(action), code, "is not authorized")
    assert f"not allowed to call {permission} on" in problem(capsys)


def test_image_and_required_checks_of_the_file(
    aws: HeadNodeStub, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A pipeline's gate has no options: the environment file contains what it requires."""
    file = tmp_path / "local.yaml"
    text = environment_file("local").read_text("utf-8")
    file.write_text(f"{text}\nvalidation:\n  image: pytorch\n  required: [nccl, storage]\n", "utf-8")
    aws.deployed("running")
    aws.answers("facts", out=FACTS)
    errors = problem(capsys, environment=str(file))
    assert "The image pytorch is not on the cluster; imported are: none" in errors
    assert "import-container.sh IMAGE_URI pytorch" in errors

    def selection(*options: str) -> Selection:
        given = vars(parser().parse_args(["validate", "local", *options]))
        names = ("only", "skip", "nodes", "image", "storage_percent", "drain")
        return selection_of(load(file).validation, **{name: given[name] for name in names})

    assert selection() == Selection(required=("nccl", "storage"), image="pytorch")
    assert selection("--skip", "nccl", "--image", "mine").required == ("storage",)
    assert selection("--image", "mine").image == "mine"
    assert selection("--only", "hello-gpu").required == ("hello-gpu",)
    assert selection("--nodes", "all", "--drain") == Selection(CHECKS, ("nccl", "storage"), 1024, "pytorch", drain=True)
    assert selection("--drain").drain and selection("--only", "scan,nccl", "--drain").drain
    with pytest.raises(
        Problem, match="--drain drains what these checks find: scan, hello-gpu, gpu-check, gpu-burn, pairs"
    ):
        selection("--drain", "--only", "nccl")

    file.write_text(f"{text}\nvalidation:\n  required: [speed]\n", "utf-8")
    errors = problem(capsys, environment=str(file))
    assert "validation.required" in errors and "speed" in errors and "storage" in errors


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--only", "nothing"], "'nothing'; allowed, joined by commas: head-scan, scan"),
        (["--nodes", "0"], "allowed: 1 to 1024"),
        (["--format", "pdf"], "invalid choice"),
        (["--only", "scan", "--skip", "nccl"], "not allowed with"),
    ],
)
def test_wrong_use(capsys: pytest.CaptureFixture[str], options: list[str], words: str) -> None:
    with pytest.raises(SystemExit) as end:
        validate("local", *options)
    assert end.value.code == 4
    assert words in capsys.readouterr().err


def test_sigterm_of_a_pipeline_interrupts() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), verdicts._terminated_as_interrupted():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)
    assert signal.getsignal(signal.SIGTERM) is before

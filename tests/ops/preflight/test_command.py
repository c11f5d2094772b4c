"""The command: its report, its exit status, and what it says to wrong use."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import botocore.session
import pytest
from botocore import xform_name
from botocore.exceptions import ClientError, NoCredentialsError
from botocore.stub import Stubber
from rich.console import Console

from cli import main, verdicts
from ops import pcluster_subprocess
from ops.preflight import caller, permissions
from ops.preflight import run as runs
from ops.preflight.aws import Aws, Denied
from ops.preflight.checks import CHECKS, Check
from ops.preflight.context import CheckContext
from ops.preflight.results import CheckResult, Report, Verdict
from ops.preflight.run import run
from ops.problem import Problem
from ops.report import json_text, markdown, text
from ops.report.commands import preflight_report
from tests.cluster_config.builder import environment
from tests.ops.preflight.account import NOW, Account, refusal

ROOT = Path(__file__).parents[3]
FILE = Path("environment.yaml")


def line(verdict: Verdict, todo: str = "") -> CheckResult:
    """A line with signs that markup would swallow."""
    return CheckResult("quotas", "[P] | vCPUs", "ec2:X", "384 <of>", "192", verdict, todo)


def report(*verdicts: Verdict) -> Report:
    """A report of such lines."""
    lines = tuple(line(verdict, "" if verdict is Verdict.OK else "raise it") for verdict in verdicts)
    return Report("small", "123456789012", "us-east-1", lines)


def test_ready_is_what_has_no_fault_and_nothing_unknown() -> None:
    assert report(Verdict.OK, Verdict.NOTE, Verdict.WARNING).ready
    assert not report(Verdict.OK, Verdict.FAULT).ready
    assert not report(Verdict.OK, Verdict.UNKNOWN).ready
    assert report(Verdict.FAULT, Verdict.OK, Verdict.OK).headline == "NOT READY: 1 faults, 2 ok"


def test_text_begins_with_the_verdict_and_what_to_do() -> None:
    said = io.StringIO()
    text(preflight_report(report(Verdict.OK, Verdict.FAULT)), Console(file=said, width=160, highlight=False))
    first, *rest = said.getvalue().splitlines()
    assert first == "NOT READY: 1 faults, 1 ok"
    assert "    asked: ec2:X" in rest
    assert "    do: raise it" in rest
    assert "[P] | vCPUs" in said.getvalue()


def test_markdown_folds_in_what_is_good() -> None:
    said = markdown(preflight_report(report(Verdict.OK, Verdict.FAULT)))
    head, folded = said.split("<details>")
    assert "> [!CAUTION]" in head
    assert "| fault | quotas: [P] \\| vCPUs | ec2:X | 384 &lt;of> | 192 | raise it |" in head
    assert "| ok | quotas: [P] \\| vCPUs |" in folded
    assert "> [!NOTE]" in markdown(preflight_report(report(Verdict.OK)))


def test_json_has_every_line_with_every_field() -> None:
    said = json.loads(json_text(preflight_report(report(Verdict.WARNING, Verdict.UNKNOWN))))
    assert (said["ready"], said["exit"]) == (False, 1)
    assert said["lines"][1] == {
        "check": "quotas",
        "subject": "[P] | vCPUs",
        "asked": "ec2:X",
        "found": "384 <of>",
        "wanted": "192",
        "verdict": "unknown",
        "todo": "raise it",
    }


# --- what may not be asked -------------------------------------------------------------------------------------------
def test_each_missing_permission_is_a_line_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = pcluster_subprocess.Images("3.16.1", "aws-parallelcluster-*", False, "its:version")
    monkeypatch.setattr(pcluster_subprocess, "images", lambda *_: found)
    checks = tuple(check for check in CHECKS if check[0] != "cluster")
    account = Account(denied=set(permissions.ACTIONS))
    told = run(account, environment(storage={"buckets": {"name_prefix": "acme"}}), FILE, NOW, checks)
    assert not told.ready
    denied = {item.asked for item in told.results if item.verdict is Verdict.UNKNOWN}
    assert {"cloudformation:ListStackResources", "ec2:DescribeInstanceTypeOfferings", "s3:ListBucket"} <= denied
    assert all(f"grant {item.asked} " in item.todo for item in told.results if item.verdict is Verdict.UNKNOWN)


def test_a_refusal_ends_its_own_check_and_keeps_the_lines_before_it() -> None:
    def broken(_: CheckContext) -> Iterator[CheckResult]:
        yield line(Verdict.OK)
        raise refusal("InternalError", "try later", "DescribeThings")

    def good(_: CheckContext) -> Iterator[CheckResult]:
        yield line(Verdict.NOTE)

    checks: tuple[tuple[str, str, Check], ...] = (("one", "things", broken), ("two", "others", good))
    told = run(Account(), environment(), FILE, NOW, checks)
    assert [item.verdict for item in told.results] == [Verdict.OK, Verdict.UNKNOWN, Verdict.NOTE]
    assert told.results[1].found == "InternalError: try later"


@pytest.mark.parametrize("code", ["UnauthorizedOperation", "AccessDeniedException", "AccessDenied"])
def test_a_denied_call_names_its_permission(code: str) -> None:
    aws = Aws(boto3.Session("key", "secret"), "us-east-1")
    with Stubber(aws._client("ec2")) as stub:
        stub.add_client_error("describe_vpcs", code)
        with pytest.raises(Denied, match="ec2:DescribeVpcs is not allowed"):
            list(aws.items("ec2", "describe_vpcs", "Vpcs"))


def test_all_pages_are_read() -> None:
    aws = Aws(boto3.Session("key", "secret"), "us-east-1")
    with Stubber(aws._client("ec2")) as stub:
        stub.add_response("describe_vpcs", {"Vpcs": [{"VpcId": "vpc-0"}], "NextToken": "more"})
        stub.add_response("describe_vpcs", {"Vpcs": [{"VpcId": "vpc-1"}]}, {"NextToken": "more"})
        assert [item["VpcId"] for item in aws.items("ec2", "describe_vpcs", "Vpcs")] == ["vpc-0", "vpc-1"]


def test_the_permissions_are_reads_that_exist() -> None:
    """Each is an operation of its service, but for S3's, which authorizes HeadBucket under another name."""
    services = {"servicequotas": "service-quotas", "tag": "resourcegroupstaggingapi"}
    for action in set(permissions.ACTIONS) - {"s3:ListBucket"}:
        prefix, _, name = action.partition(":")
        assert name.startswith(("Describe", "List", "Get")), action
        service = services.get(prefix, prefix)
        model = botocore.session.get_session().get_service_model(service)
        assert name in model.operation_names
        if prefix != "tag":  # never called here
            assert permissions.action_of(service, xform_name(name)) == action
    assert permissions.action_of("s3", "head_bucket") == "s3:ListBucket"
    assert list(permissions.ACTIONS) == sorted(permissions.ACTIONS)


# --- who asks --------------------------------------------------------------------------------------------------------
class Caller:
    """Says who asks."""

    def __init__(self, answer: dict[str, Any] | Exception) -> None:
        self._answer = answer

    def call(self, service: str, operation: str, **_: Any) -> dict[str, Any]:  # noqa: ANN401
        assert (service, operation) == ("sts", "get_caller_identity")
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def items(self, *_: Any, **__: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401
        raise AssertionError("nothing else is asked")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"Account": "999988887777", "Arn": "arn:aws:iam::999988887777:root"}, "belong to account 999988887777"),
        ({"Account": "123456789012", "Arn": "arn:aws-cn:iam::123456789012:root"}, "partition aws-cn"),
        (NoCredentialsError(), "credentials of your shell"),
        (ClientError({"Error": {"Code": "ExpiredToken", "Message": "old"}}, "GetCallerIdentity"), "expired"),
        (ClientError({"Error": {"Code": "InvalidClientTokenId", "Message": "?"}}, "x"), "us-east-1 is not enabled"),
    ],
)
def test_credentials_that_cannot_be_used(answer: dict[str, Any] | Exception, said: str) -> None:
    with pytest.raises(Problem, match=said):
        caller.require(Caller(answer), boto3.Session(), environment())


def test_credentials_of_the_account_are_taken() -> None:
    good = {"Account": "123456789012", "Arn": "arn:aws:sts::123456789012:assumed-role/x/y"}
    caller.require(Caller(good), boto3.Session(), environment())


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command without any AWS setting."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    alone = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.devnull}
    return subprocess.run(
        [sys.executable, "-m", "cli", "preflight", "--on", "aws", *arguments],
        cwd=ROOT,
        env={**kept, **alone, "AWS_SHARED_CREDENTIALS_FILE": os.devnull},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nothing",), "There is no environment 'nothing'"),
        (("local", "--format", "xml"), "invalid choice"),
        ((), "required"),
        (("missing.yaml",), "missing.yaml"),
        (("local",), "credentials of your shell"),
    ],
)
def test_wrong_use_is_no_verdict(arguments: tuple[str, ...], said: str) -> None:
    result = run_command(*arguments)
    assert result.returncode == 4
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_an_error_of_the_program_is_no_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a mistake")

    monkeypatch.setattr(verdicts, "read", broken)
    assert main(["preflight", "local"]) == 4
    assert "a mistake" in capsys.readouterr().err


def prepared(monkeypatch: pytest.MonkeyPatch, verdict: Verdict) -> None:
    """AWS and the checks are replaced by one result."""
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setattr(caller, "require", lambda *_: None)
    monkeypatch.setattr(runs, "run", lambda *_: report(verdict))


@pytest.mark.parametrize(("verdict", "status"), [(Verdict.OK, 0), (Verdict.FAULT, 1), (Verdict.UNKNOWN, 1)])
@pytest.mark.parametrize("form", ["text", "markdown", "json", "html"])
def test_a_report_goes_to_a_file(
    verdict: Verdict, status: int, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared(monkeypatch, verdict)
    file = tmp_path / "report"
    assert main(["preflight", "local", "--on", "aws", "--format", form, "--output", str(file)]) == status
    assert "READY" in file.read_text("utf-8")


def test_a_file_that_cannot_be_written_is_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared(monkeypatch, Verdict.OK)
    assert main(["preflight", "local", "--on", "aws", "--output", str(tmp_path / "no" / "such")]) == 4

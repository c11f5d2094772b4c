"""The command: its report, its exit status, and its errors."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import botocore.session
import pytest
from botocore import xform_name
from botocore.exceptions import EndpointConnectionError, NoCredentialsError
from botocore.stub import Stubber

from cli import main
from ops import pcluster_subprocess
from ops.preflight import aws, checks
from ops.preflight.aws import Aws, Denied, action_of, require_account
from ops.preflight.checks import CHECKS, Check, run
from ops.preflight.context import CheckContext
from ops.preflight.results import CheckResult, Report, Verdict
from ops.problem import Problem
from ops.report import json_text, markdown, write
from ops.report.commands import preflight_report
from tests.cluster_config.builder import environment
from tests.ops.preflight.account import NOW, Account, refusal
from trainyard.pipeline.actions import PREFLIGHT

ROOT = Path(__file__).parents[3]


def result(verdict: Verdict) -> CheckResult:
    """A result with characters that markup would swallow."""
    todo = "" if verdict is Verdict.OK else "raise it"
    return CheckResult("[P] | vCPUs", "ec2:X", "384 <of>", "192", verdict, todo, "quotas")


def report(*verdicts: Verdict) -> Report:
    return Report("small", "123456789012", "us-east-1", tuple(map(result, verdicts)))


def checked(account: Account, checks: tuple[tuple[str, str, Check], ...], **keys: Any) -> Report:  # noqa: ANN401
    return run(account, environment(**keys), Path("x.yaml"), NOW, progress=lambda _: None, checks=checks)


def test_ready_without_fault_and_unknown() -> None:
    assert report(Verdict.OK, Verdict.NOTE, Verdict.WARNING).ready
    assert not report(Verdict.OK, Verdict.FAULT).ready
    assert not report(Verdict.OK, Verdict.UNKNOWN).ready
    assert preflight_report(checked(Account(emulated=True), ())).title.endswith("us-east-1 (simulated: emulated AWS)")
    assert report(Verdict.FAULT, Verdict.OK, Verdict.OK).headline == "NOT READY: 1 faults, 2 ok"


def test_text_begins_with_the_verdict(tmp_path: Path) -> None:
    file = tmp_path / "report.txt"
    write(preflight_report(report(Verdict.OK, Verdict.FAULT)), "text", file)
    first, *rest = file.read_text("utf-8").splitlines()
    assert first == "NOT READY: 1 faults, 1 ok"
    assert {"    asked: ec2:X", "    do: raise it"} <= set(rest)


def test_markdown_folds_good_results() -> None:
    head, folded = markdown(preflight_report(report(Verdict.OK, Verdict.FAULT))).split("<details>")
    assert "> [!CAUTION]" in head and "NOT READY: 1 faults, 1 ok" in head
    assert "| fault | quotas: [P] \\| vCPUs | ec2:X | 384 &lt;of> | 192 | raise it |" in head
    assert "| ok | quotas: [P] \\| vCPUs |" in folded
    assert "> [!NOTE]" in markdown(preflight_report(report(Verdict.OK)))


def test_json_has_every_field() -> None:
    found = json.loads(json_text(preflight_report(report(Verdict.WARNING, Verdict.UNKNOWN))))
    assert (found["ready"], found["exit"], found["simulated"]) == (False, 1, False)
    assert found["lines"][1] == {
        "check": "quotas", "subject": "[P] | vCPUs", "asked": "ec2:X", "found": "384 <of>", "wanted": "192",
        "verdict": "unknown", "todo": "raise it",
    }  # fmt: skip


# --- permissions -----------------------------------------------------------------------------------------------------
def test_each_missing_permission_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = pcluster_subprocess.Images("3.16.1", "aws-parallelcluster-*", "its:version")
    monkeypatch.setattr(pcluster_subprocess, "images", lambda *_: found)
    account = Account(denied=set(PREFLIGHT))
    without_synthesis = tuple(check for check in CHECKS if check[0] not in ("cluster", "cost"))
    denied = checked(account, without_synthesis, storage={"buckets": {"name_prefix": "acme"}})
    unknown = [item for item in denied.results if item.verdict is Verdict.UNKNOWN]
    wanted = {"cloudformation:ListStackResources", "ec2:DescribeInstanceTypeOfferings", "s3:ListBucket"}
    assert wanted <= {item.asked for item in unknown}
    assert all(f"grant {item.asked} " in item.todo for item in unknown)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (refusal("InternalError", "try later", "DescribeThings"), "InternalError: try later"),
        (EndpointConnectionError(endpoint_url="https://fsx"), 'Could not connect to the endpoint URL: "https://fsx"'),
    ],
)
def test_failed_call_ends_its_own_check_only(error: Exception, words: str) -> None:
    def broken(_: CheckContext) -> Iterator[CheckResult]:
        yield result(Verdict.OK)
        raise error

    def good(_: CheckContext) -> Iterator[CheckResult]:
        yield result(Verdict.NOTE)

    found = checked(Account(), (("one", "things", broken), ("two", "others", good))).results
    assert [(item.check, item.verdict) for item in found] == [
        ("one", Verdict.OK), ("one", Verdict.UNKNOWN), ("two", Verdict.NOTE),
    ]  # fmt: skip
    assert found[1].found == words


@pytest.mark.parametrize("code", ["UnauthorizedOperation", "AccessDeniedException", "AccessDenied"])
def test_denied_call_names_its_permission(code: str) -> None:
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


def test_permissions_are_reads_that_exist() -> None:
    """Each is an operation of its service, except S3's, which authorizes HeadBucket under another name."""
    services = {"servicequotas": "service-quotas", "sso": "sso-admin", "tag": "resourcegroupstaggingapi"}
    for action in set(PREFLIGHT) - {"s3:ListBucket"}:
        prefix, _, name = action.partition(":")
        assert name.startswith(("Describe", "List", "Get")), action
        service = services.get(prefix, prefix)
        assert name in botocore.session.get_session().get_service_model(service).operation_names
        if prefix != "tag":  # never called here
            assert action_of(service, xform_name(name)) == action
    assert action_of("s3", "head_bucket") == "s3:ListBucket"
    assert list(PREFLIGHT) == sorted(PREFLIGHT)


# --- credentials -----------------------------------------------------------------------------------------------------
class Caller(Aws):
    """Answers GetCallerIdentity."""

    def __init__(self, answer: dict[str, Any] | Exception) -> None:
        self._answer = answer

    def call(self, service: str, operation: str, **_: Any) -> dict[str, Any]:  # noqa: ANN401
        assert (service, operation) == ("sts", "get_caller_identity")
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"Account": "999988887777", "Arn": "arn:aws:iam::999988887777:root"}, "belong to account 999988887777"),
        ({"Account": "123456789012", "Arn": "arn:aws-cn:iam::123456789012:root"}, "partition aws-cn"),
        (NoCredentialsError(), "credentials of your shell"),
        (refusal("ExpiredToken", "old", "GetCallerIdentity"), "expired"),
        (refusal("InvalidClientTokenId", "?", "x"), "us-east-1 is not enabled"),
        (Denied("sts:GetCallerIdentity"), "AWS refuses your credentials"),
    ],
)
def test_unusable_credentials(answer: dict[str, Any] | Exception, text: str) -> None:
    with pytest.raises(Problem, match=text):
        require_account(Caller(answer), environment())


def test_credentials_of_the_account() -> None:
    require_account(Caller({"Account": "123456789012", "Arn": "arn:aws:sts::1:assumed-role/x/y"}), environment())


# --- exit status -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("local", "--format", "xml"), "invalid choice"),
        (("local",), "credentials of your shell"),
    ],
)
def test_errors_are_no_verdict(arguments: tuple[str, ...], text: str) -> None:
    """The command without any AWS setting."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    alone = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.devnull}
    done = subprocess.run(
        [sys.executable, "-m", "cli", "preflight", "--on", "aws", *arguments],
        cwd=ROOT,
        env={**kept, **alone, "AWS_SHARED_CREDENTIALS_FILE": os.devnull},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (4, "")
    assert text in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("verdict", "form", "status", "headline"),
    [
        (Verdict.OK, "text", 0, "READY: 1 ok"),
        (Verdict.FAULT, "markdown", 1, "NOT READY: 1 faults"),
        (Verdict.UNKNOWN, "json", 1, "NOT READY: 1 unknown"),
        (Verdict.OK, "html", 0, "READY: 1 ok"),
        (Verdict.OK, "no/such/folder", 4, None),
    ],
)
def test_report_in_a_file(
    verdict: Verdict, form: str, status: int, headline: str | None, *, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setattr(aws, "require_account", lambda *_: None)
    monkeypatch.setattr(checks, "run", lambda *_, **__: report(verdict))
    file = tmp_path / form
    options = ["--format", "text" if status == 4 else form, "--output", str(file)]
    assert main(["preflight", "local", "--on", "aws", *options]) == status
    found = re.search(r"(NOT )?READY: \d \w+", file.read_text("utf-8")) if file.exists() else None
    assert (found and found[0]) == headline

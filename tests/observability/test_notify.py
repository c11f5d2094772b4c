"""`trainyard notify` and the message after a validation, against botocore's model of SNS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.stub import ANY, Stubber

from cli import main, verdicts
from ops import notify
from ops.problem import Problem
from ops.validation.report import Line, Outcome, Report
from settings import environment_file, load
from tests.stubs import stubbed
from trainyard.pipeline.permissions import grants

ENVIRONMENT = load(environment_file("local"))
ARN = f"arn:aws:sns:{ENVIRONMENT.region}:{ENVIRONMENT.account}:trainyard-local-notifications"
MAIL = {"Protocol": "email", "Endpoint": "ops@example.com"}
CHAT = {"Protocol": "lambda", "Endpoint": "arn:aws:lambda:us-east-1:111122223333:function:chat"}
CONFIRMED, PENDING = {"SubscriptionArn": f"{ARN}:1"}, {"SubscriptionArn": "PendingConfirmation"}
UNSUBSCRIBED = {"SubscriptionArn": "Deleted"}


class Sns:
    """A session whose SNS answers what was queued and nothing else."""

    def __init__(self, client: Any, stub: Stubber) -> None:  # noqa: ANN401 - a boto3 client
        self.client, self.stub = client, stub
        self.session: Any = SimpleNamespace(client=lambda _name: self.client)

    def takes(self, subject: str, message: object = ANY) -> None:
        asked = {"TopicArn": ARN, "Subject": subject, "Message": message}
        self.stub.add_response("publish", {"MessageId": "1"}, asked)

    def lists(self, *found: dict[str, str]) -> None:
        self.stub.add_response("list_subscriptions_by_topic", {"Subscriptions": list(found)}, {"TopicArn": ARN})


def answer_as(monkeypatch: pytest.MonkeyPatch, account: str) -> None:
    """STS answers with this account."""
    caller = {"Account": account, "Arn": f"arn:aws:iam::{account}:user/ada"}
    monkeypatch.setattr("ops.preflight.aws.Aws.call", lambda *_, **__: caller)


@pytest.fixture
def sns(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sns]:
    answer_as(monkeypatch, ENVIRONMENT.account)
    with stubbed("sns") as (client, stub):
        made = Sns(client, stub)
        monkeypatch.setattr(verdicts, "session_of", lambda _environment: made.session)
        yield made


def run(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    code = main(["notify", "local", "--on", "aws", *options])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def test_a_test_message_and_confirmed_receivers(sns: Sns, capsys: pytest.CaptureFixture[str]) -> None:
    sns.takes("Test of local")
    sns.lists(MAIL | CONFIRMED, CHAT | CONFIRMED)
    code, said = run(capsys, "--test")
    assert code == 0
    assert "A test message was sent. 2 confirmed, 0 pending" in said
    assert "chat" in said


def test_a_pending_address_is_status_1_with_what_to_do(sns: Sns, capsys: pytest.CaptureFixture[str]) -> None:
    sns.lists(CHAT | CONFIRMED, MAIL | PENDING)
    code, said = run(capsys, "--format", "json")
    assert code == 1
    found = json.loads(said)
    assert found["headline"] == "1 confirmed, 1 pending"
    assert [item["confirmed"] for item in found["subscriptions"]] == [False, True]
    sns.lists(MAIL | PENDING)
    assert "open the link in the mail of AWS Notifications" in run(capsys)[1]


def test_an_address_that_unsubscribed_is_status_1_with_what_to_do(sns: Sns, capsys: pytest.CaptureFixture[str]) -> None:
    sns.lists(CHAT | CONFIRMED, MAIL | UNSUBSCRIBED)
    code, said = run(capsys, "--format", "json")
    assert code == 1
    assert json.loads(said)["headline"] == "1 confirmed, 0 pending, 1 unsubscribed"
    sns.lists(MAIL | UNSUBSCRIBED)
    assert "add it again after 3 days" in " ".join(run(capsys)[1].split())


def test_nobody_is_status_1(sns: Sns, capsys: pytest.CaptureFixture[str]) -> None:
    sns.lists()
    code, said = run(capsys)
    assert code == 1
    assert "Nobody is notified: add observability.notify" in said


@pytest.mark.parametrize(
    ("code", "advice"), [("NotFoundException", "Deploy local first"), ("AuthorizationError", "docs/permissions.md")]
)
def test_what_sns_refuses(sns: Sns, capsys: pytest.CaptureFixture[str], code: str, advice: str) -> None:
    sns.stub.add_client_error("publish", code, "no")
    status, said = run(capsys, "--test")
    assert status == 4
    assert advice in said
    assert "Traceback" not in said


@pytest.mark.usefixtures("sns")
def test_credentials_of_another_account(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    answer_as(monkeypatch, "999999999999")
    status, said = run(capsys, "--test")
    assert status == 4
    assert "belong to account 999999999999" in said


def test_an_environment_without_observability_says_how_to_get_it(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["notify", "dev", "--on", "aws", "--test"])
    assert code == 4
    assert "observability is off" in capsys.readouterr().err


def test_a_subject_is_one_short_line_of_ascii(sns: Sns) -> None:
    sns.takes(("n?d? " * 30)[:100])
    notify.publish(sns.session, ENVIRONMENT, "nødé\n" * 30, "text")


def line(found: str, outcome: Outcome, action: str = "") -> Line:
    return Line("gpu-check", "gpu/p5", "GPUs", found, "8 GPUs", outcome, action)


FAILED = line("gpu-1: 7 of 8 GPUs", Outcome.FAILED, "replace it")
DRAINED = line("drained: gpu-1", Outcome.WARNING, "after the repair: resume")


@pytest.mark.parametrize("lines", [(FAILED,), (FAILED, DRAINED), (DRAINED, line("8", Outcome.PASSED))])
def test_a_failed_validation_and_drained_nodes_are_reported(sns: Sns, lines: tuple[Line, ...]) -> None:
    messages: list[str] = []
    sns.client.meta.events.register(
        "provide-client-params.sns.Publish", lambda params, **_: messages.append(params["Message"])
    )
    sns.takes("Validation of local")
    notify.of_validation(sns.session, ENVIRONMENT, Report("local", "local", "i-1", lines), pytest.fail)
    assert all(item.found in messages[0] for item in lines if item in [FAILED, DRAINED])
    assert "First command: trainyard validate local --on aws" in messages[0]  # fmt: skip


def test_a_good_validation_sends_nothing(sns: Sns) -> None:
    found = (line("8", Outcome.PASSED), line("drained: none", Outcome.WARNING))
    notify.of_validation(sns.session, ENVIRONMENT, Report("local", "local", "i-1", found), pytest.fail)


def test_a_failure_to_notify_is_a_warning(sns: Sns) -> None:
    said: list[str] = []
    sns.stub.add_client_error("publish", "InternalError", "no")
    notify.of_validation(sns.session, ENVIRONMENT, Report("local", "local", "i-1", (FAILED,)), said.append)
    assert len(said) == 1
    assert said[0].startswith("nobody was notified: SNS refused (InternalError)")


def test_a_pipelines_validation_may_publish_where_there_is_a_topic() -> None:
    found = [grant for grant in grants(ENVIRONMENT)["validation"] if "sns:Publish" in grant.actions]
    assert [grant.resource for grant in found] == [ARN]
    without = load(environment_file("dev"))
    assert not any("sns:Publish" in grant.actions for grant in grants(without)["validation"])
    with pytest.raises(Problem, match="observability is off"):
        notify.topic(without)

"""The limit of a budget against botocore's models: which command is sent when, and what is reported."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pytest
from botocore.exceptions import ClientError
from botocore.stub import ANY, Stubber
from cost_budget.limit import Clients, CommandError, Place, enforce

from tests.stubs import stubbed

PLACE = Place("unit", "111122223333", "b", "doc", "/trainyard/unit/head-node/instance-id", "arn:aws:sns:x:1:topic")
COMMAND, INSTANCE = "12345678-1234-1234-1234-123456789012", "i-0123456789abcdef0"
ASKED = {"CommandId": COMMAND, "InstanceId": INSTANCE}


class Aws(NamedTuple):
    clients: Clients
    budgets: Stubber
    ssm: Stubber
    sns: Stubber

    def spent(self, amount: str | None) -> None:
        spend = {"CalculatedSpend": {"ActualSpend": {"Amount": amount, "Unit": "USD"}}} if amount else {}
        kind = {"BudgetName": "b", "BudgetType": "COST", "TimeUnit": "MONTHLY"}
        found = {"Budget": {**kind, "BudgetLimit": {"Amount": "1000", "Unit": "USD"}, **spend}}
        self.budgets.add_response("describe_budget", found, {"AccountId": PLACE.account, "BudgetName": "b"})

    def sends(self, action: str) -> None:
        self.ssm.add_response("get_parameter", {"Parameter": {"Value": INSTANCE}}, {"Name": PLACE.parameter})
        asked = {"InstanceIds": [INSTANCE], "DocumentName": "doc", "Parameters": {"Action": [action]}}
        self.ssm.add_response("send_command", {"Command": {"CommandId": COMMAND}}, asked)

    def answers(self, status: str, output: str = "", error: str = "") -> None:
        found = {"Status": status, "StandardOutputContent": output, "StandardErrorContent": error}
        self.ssm.add_response("get_command_invocation", found, ASKED)


@pytest.fixture
def aws() -> Iterator[Aws]:
    with ExitStack() as stack:
        made = [stack.enter_context(stubbed(name, "ap-southeast-3")) for name in ("budgets", "ssm", "sns")]
        yield Aws(Clients(*(client for client, _ in made)), *(stub for _, stub in made))


def run(aws: Aws, place: Place = PLACE) -> str:
    return enforce(place, aws.clients, sleep=lambda _: None)


@pytest.mark.parametrize("amount", ["1000", "1200.5"])
def test_a_budget_that_is_used_up_stops_new_jobs_and_says_how_to_go_on(aws: Aws, amount: str) -> None:
    aws.spent(amount)
    aws.sends("stop")
    aws.ssm.add_client_error("get_command_invocation", "InvocationDoesNotExist")
    aws.answers("InProgress")
    aws.answers("Success", "gpu,cpu\n")
    aws.sns.add_response("publish", {}, {"TopicArn": PLACE.topic_arn, "Subject": ANY, "Message": ANY})
    published: dict[str, str] = {}
    aws.clients.sns.meta.events.register(
        "provide-client-params.sns.Publish", lambda params, **_: published.update(params)
    )
    assert run(aws) == "stop: gpu,cpu"
    assert "of $1,000.00 are spent in unit this month" in published["Message"]
    assert "running jobs go on" in published["Message"]
    assert "raise cost.budget.monthly_usd" in published["Message"]


@pytest.mark.parametrize("amount", ["999.99", "0", None], ids=["below", "a new month", "no data yet"])
def test_below_the_budget_jobs_start_again(aws: Aws, amount: str | None) -> None:
    aws.spent(amount)
    aws.sends("resume")
    aws.answers("Success", "\n")
    assert run(aws) == "resume: nothing changed"  # and nothing is published


def test_what_resumed_is_reported_once(aws: Aws) -> None:
    aws.spent("0")
    aws.sends("resume")
    aws.answers("Success", "gpu\n")
    aws.sns.add_response("publish", {}, {"TopicArn": PLACE.topic_arn, "Subject": ANY, "Message": ANY})
    assert run(aws) == "resume: gpu"


def test_without_a_topic_nothing_is_published(aws: Aws) -> None:
    aws.spent("1000")
    aws.sends("stop")
    aws.answers("Success", "gpu\n")
    assert run(aws, PLACE._replace(topic_arn="")) == "stop: gpu"


@pytest.mark.parametrize("status", ["Failed", "TimedOut", "Cancelled"])
def test_a_command_that_fails_is_an_error_that_the_alarm_counts(aws: Aws, status: str) -> None:
    aws.spent("1000")
    aws.sends("stop")
    aws.answers(status, error="slurmctld does not answer")
    with pytest.raises(CommandError, match="slurmctld does not answer"):
        run(aws)


def test_a_command_that_does_not_end_is_an_error(aws: Aws) -> None:
    aws.spent("1000")
    aws.sends("stop")
    for _ in range(30):
        aws.answers("InProgress")
    with pytest.raises(CommandError, match="within 60 seconds"):
        run(aws)


def test_a_head_node_that_cannot_be_reached_is_an_error(aws: Aws) -> None:
    aws.spent("1000")
    aws.ssm.add_response("get_parameter", {"Parameter": {"Value": INSTANCE}})
    aws.ssm.add_client_error("send_command", "InvalidInstanceId")
    with pytest.raises(ClientError):
        run(aws)

"""The function beside an approval, against botocore's own model of CodePipeline and SNS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber

from pipeline_approval.handler import Pipeline, run

EXECUTION = "11111111-2222-3333-4444-555555555555"
TOKEN = "token"
TOPIC = "arn:aws:sns:us-west-2:555566667777:notices"
APPROVAL = {"pipelineName": "trainyard", "stageName": "prod", "actionName": "Approve-Disruption"}


class World:
    """Stubbed clients, and the time that was slept."""

    def __init__(self) -> None:
        keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "us-west-2"}
        codepipeline, sns = boto3.client("codepipeline", **keys), boto3.client("sns", **keys)  # type: ignore[call-overload]
        self.codepipeline, self.sns = Stubber(codepipeline), Stubber(sns)
        self.slept = 0.0
        self.pipeline = Pipeline("trainyard", TOPIC, codepipeline, sns, self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.slept += seconds

    def state(self, *, execution: str = EXECUTION, status: str = "InProgress", token: str | None = TOKEN) -> None:
        latest = {"status": status, **({"token": token} if token else {})}
        action = {"actionName": "Approve-Disruption", "latestExecution": latest}
        other = {"actionName": "Approve", "latestExecution": {"status": "InProgress", "token": "not this one"}}
        stages = [
            {"stageName": "dev", "latestExecution": {"pipelineExecutionId": EXECUTION, "status": "Succeeded"}},
            {
                "stageName": "prod",
                "latestExecution": {"pipelineExecutionId": execution, "status": "InProgress"},
                "actionStates": [other, action],
            },
        ]
        self.codepipeline.add_response("get_pipeline_state", {"stageStates": stages}, {"name": "trainyard"})

    def approved(self) -> None:
        result = {"summary": ANY, "status": "Approved"}
        self.codepipeline.add_response("put_approval_result", {}, {**APPROVAL, "result": result, "token": "token"})

    def succeeded(self, summary: str) -> None:
        self.codepipeline.add_response(
            "put_job_success_result", {}, {"jobId": "job", "executionDetails": {"summary": summary}}
        )

    def failed(self) -> None:
        self.codepipeline.add_response("put_job_failure_result", {}, {"jobId": "job", "failureDetails": ANY})

    def called(self, **expected: object) -> None:
        asked = {"TopicArn": TOPIC, "Subject": ANY, "Message": ANY, **expected}
        self.sns.add_response("publish", {"MessageId": "1"}, asked)


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    with made.codepipeline, made.sns:
        yield made
    made.codepipeline.assert_no_pending_responses()
    made.sns.assert_no_pending_responses()


def job(value: str, **changes: Any) -> dict[str, Any]:  # noqa: ANN401
    parameters = {
        "execution": EXECUTION,
        "stage": "prod",
        "action": "Approve-Disruption",
        "value": value,
        "passes": "nothing,safe",
        "message": "prod: what changes",
        "link": "https://console/build",
        **changes,
    }
    return {"id": "job", "data": {"actionConfiguration": {"configuration": {"UserParameters": json.dumps(parameters)}}}}


@pytest.mark.parametrize("value", ["nothing", "safe"])
def test_a_harmless_verdict_is_approved(world: World, value: str) -> None:
    world.state()
    world.approved()
    world.succeeded(f"{value}: approved")
    run(job(value), world.pipeline)


@pytest.mark.parametrize("value", ["disruptive", "destructive", "", "Safe", "safe,", "#{prod@Diff.LEVEL}"])
def test_anything_else_calls_a_person_and_approves_nothing(world: World, value: str) -> None:
    world.called(Subject="trainyard: prod waits for Approve-Disruption")
    world.succeeded(f"{value}: a person is needed")
    run(job(value), world.pipeline)


def test_an_empty_list_lets_nothing_pass_not_even_an_empty_verdict(world: World) -> None:
    world.called()
    world.succeeded(": a person is needed")
    run(job("", passes=""), world.pipeline)


def test_it_waits_for_the_approval_to_open(world: World) -> None:
    world.state(token=None)
    world.state(status="Succeeded", token="old")
    world.state()
    world.approved()
    world.succeeded("safe: approved")
    run(job("safe"), world.pipeline)
    assert world.slept == 6


def test_the_approval_of_another_execution_is_left_alone(world: World) -> None:
    for _ in range(20):
        world.state(execution="another")
    why = "safe, but could not answer: TimeoutError: Approve-Disruption of prod did not open within 60 s"
    world.called()
    world.succeeded(why)
    run(job("safe"), world.pipeline)


def test_an_approval_that_was_answered_before_is_left_alone(world: World) -> None:
    for _ in range(20):
        world.state(status="Succeeded")
    world.called()
    world.codepipeline.add_response("put_job_success_result", {}, {"jobId": "job", "executionDetails": ANY})
    run(job("safe"), world.pipeline)


def test_where_it_cannot_answer_it_calls_a_person_and_the_stage_is_not_failed(world: World) -> None:
    # A job that failed would be run again alone by a retry, after its approval was given.
    world.state()
    world.codepipeline.add_client_error("put_approval_result", "InvalidApprovalTokenException", "another one")
    world.called(Message=_Holding("prod: what changes", "safe, but could not answer: InvalidApprovalToken"))
    world.codepipeline.add_response("put_job_success_result", {}, {"jobId": "job", "executionDetails": ANY})
    run(job("safe"), world.pipeline)


@pytest.mark.parametrize("value", ["safe", "destructive"])
def test_the_job_fails_where_nobody_can_be_called(world: World, value: str) -> None:
    if value == "safe":
        world.codepipeline.add_client_error("get_pipeline_state", "ThrottlingException")
    world.sns.add_client_error("publish", "KMSAccessDeniedException")
    world.failed()
    run(job(value), world.pipeline)


class _Holding:
    """Equal to every text that holds all of these."""

    def __init__(self, *parts: str) -> None:
        self._parts = parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and all(part in other for part in self._parts)

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("text", ["", "{", '{"value": "safe"}', '["safe"]', '{"value": 1}'])
def test_a_job_that_cannot_be_read_fails(world: World, text: str) -> None:
    world.failed()
    broken = {"id": "job", "data": {"actionConfiguration": {"configuration": {"UserParameters": text}}}}
    run(broken, world.pipeline)

"""The approval function, against botocore's model of CodePipeline and SNS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.stub import ANY

from pipeline_approval.handler import Pipeline, run
from tests.stubs import activated

EXECUTION = "11111111-2222-3333-4444-555555555555"
TOKEN = "token"
TOPIC = "arn:aws:sns:us-west-2:555566667777:notices"
APPROVAL = {"pipelineName": "trainyard", "stageName": "prod", "actionName": "Approve-Disruption"}


class Stubs:
    """Stubbed clients, and the seconds slept."""

    def __init__(self) -> None:
        codepipeline, self.codepipeline = activated("codepipeline")
        sns, self.sns = activated("sns")
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
def stubs() -> Iterator[Stubs]:
    made = Stubs()
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
def test_passing_verdict_is_approved(stubs: Stubs, value: str) -> None:
    stubs.state()
    stubs.approved()
    stubs.succeeded(f"{value}: approved")
    run(job(value), stubs.pipeline)


@pytest.mark.parametrize(
    ("value", "passes"),
    [
        *(
            (value, "nothing,safe")
            for value in ("disruptive", "destructive", "", "Safe", "safe,", "#{prod@Diff.LEVEL}")
        ),
        ("", ""),
    ],
)
def test_any_other_value_notifies_and_approves_nothing(stubs: Stubs, value: str, passes: str) -> None:
    stubs.called(Subject="trainyard: prod waits for Approve-Disruption")
    stubs.succeeded(f"{value}: a person is needed")
    run(job(value, passes=passes), stubs.pipeline)


def test_waits_until_the_approval_opens(stubs: Stubs) -> None:
    stubs.state(token=None)
    stubs.state(status="Succeeded", token="old")
    stubs.state()
    stubs.approved()
    stubs.succeeded("safe: approved")
    run(job("safe"), stubs.pipeline)
    assert stubs.slept == 6


@pytest.mark.parametrize("state", [{"execution": "another"}, {"status": "Succeeded"}])
def test_ignores_approvals_that_are_answered_or_of_another_execution(stubs: Stubs, state: dict[str, Any]) -> None:
    for _ in range(20):
        stubs.state(**state)
    stubs.called()
    stubs.succeeded("safe, but could not answer: TimeoutError: Approve-Disruption of prod did not open within 60 s")
    run(job("safe"), stubs.pipeline)


def test_failure_to_answer_notifies_and_the_job_succeeds(stubs: Stubs) -> None:
    # A retry would repeat a failed job alone, after its approval was given.
    stubs.state()
    stubs.codepipeline.add_client_error("put_approval_result", "InvalidApprovalTokenException", "another one")
    why = (
        "safe, but could not answer: InvalidApprovalTokenException: An error occurred (InvalidApprovalTokenException)"
        " when calling the PutApprovalResult operation: another one"
    )
    text = (
        f"prod: what changes\n\nReport: https://console/build\n\nVerdict: {why}\n\n"
        "To let it pass, or to stop it, review the action Approve-Disruption of the stage prod in the pipeline "
        "trainyard."
    )
    stubs.called(Message=text)
    stubs.succeeded(why)
    run(job("safe"), stubs.pipeline)


@pytest.mark.parametrize("value", ["safe", "destructive"])
def test_job_fails_if_notification_fails(stubs: Stubs, value: str) -> None:
    if value == "safe":
        stubs.codepipeline.add_client_error("get_pipeline_state", "ThrottlingException")
    stubs.sns.add_client_error("publish", "KMSAccessDeniedException")
    stubs.failed()
    run(job(value), stubs.pipeline)


@pytest.mark.parametrize("text", ["", "{", '{"value": "safe"}', '["safe"]', '{"value": 1}'])
def test_unreadable_job_fails(stubs: Stubs, text: str) -> None:
    stubs.failed()
    broken = {"id": "job", "data": {"actionConfiguration": {"configuration": {"UserParameters": text}}}}
    run(broken, stubs.pipeline)

"""Lambda handler of a CodePipeline job that approves a manual approval, or notifies a person."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

import boto3

if TYPE_CHECKING:
    from types_boto3_codepipeline.client import CodePipelineClient
    from types_boto3_sns.client import SNSClient

OPENS_WITHIN_S = 60.0
LOOK_EVERY_S = 3.0
SUBJECT_CHARACTERS = 100  # the limit of SNS
MESSAGE_CHARACTERS = 1000  # of an error; CodePipeline's limits are 5000 in a failure and 2048 in a summary


@dataclass(frozen=True)
class Request:
    """The parameters of the job. `value` is the verdict; the approval is approved if `passes` contains it."""

    execution: str
    stage: str
    action: str
    value: str
    passes: tuple[str, ...]
    message: str
    link: str

    @property
    def passed(self) -> bool:
        """Whether nobody has to decide."""
        return self.value in self.passes

    @classmethod
    def read(cls, job: dict[str, Any]) -> Self:
        """From a job. Raises LookupError, TypeError or ValueError for parameters that are missing or unreadable."""
        given = json.loads(job["data"]["actionConfiguration"]["configuration"]["UserParameters"])
        values = {field.name: given[field.name] for field in fields(cls)}
        return cls(**{**values, "passes": tuple(filter(None, given["passes"].split(",")))})


@dataclass(frozen=True)
class Pipeline:
    """The pipeline and the AWS clients. `topic` is the ARN of the topic that notifies a person."""

    name: str
    topic: str
    codepipeline: CodePipelineClient
    sns: SNSClient
    sleep: Callable[[float], None] = time.sleep


def handler(event: dict[str, Any], context: object) -> None:  # noqa: ARG001 - the signature is Lambda's
    clients = boto3.client("codepipeline"), boto3.client("sns")
    run(event["CodePipeline.job"], Pipeline(os.environ["PIPELINE"], os.environ["TOPIC_ARN"], *clients))


def run(job: dict[str, Any], pipeline: Pipeline) -> None:
    """Approve or notify, and report the job's result.

    If it cannot approve, it notifies a person and the job succeeds: the open approval stops the pipeline. The job fails
    only if the notification fails too.
    """
    try:
        summary = _answer(Request.read(job), pipeline)
    except Exception as error:
        logging.exception("Nobody could be notified")
        pipeline.codepipeline.put_job_failure_result(
            jobId=job["id"], failureDetails={"type": "JobFailed", "message": _text_of(error)}
        )
        return
    pipeline.codepipeline.put_job_success_result(jobId=job["id"], executionDetails={"summary": summary})


def _answer(request: Request, pipeline: Pipeline) -> str:
    if not request.passed:
        return _notify(request, pipeline, f"{request.value}: a person is needed")
    try:
        return _approve(request, pipeline)
    except Exception as error:
        logging.exception("The approval could not be answered")
        return _notify(request, pipeline, f"{request.value}, but could not answer: {_text_of(error)}")


def _text_of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:MESSAGE_CHARACTERS]


def _notify(request: Request, pipeline: Pipeline, why: str) -> str:
    """Send a message to the topic. Returns `why`."""
    pipeline.sns.publish(
        TopicArn=pipeline.topic,
        Subject=f"{pipeline.name}: {request.stage} waits for {request.action}"[:SUBJECT_CHARACTERS],
        Message=f"{request.message}\n\nReport: {request.link}\n\nVerdict: {why}\n\n"
        f"To let it pass, or to stop it, review the action {request.action} of the stage {request.stage} in the "
        f"pipeline {pipeline.name}.",
    )
    return why


def _approve(request: Request, pipeline: Pipeline) -> str:
    pipeline.codepipeline.put_approval_result(
        pipelineName=pipeline.name,
        stageName=request.stage,
        actionName=request.action,
        result={"summary": f"The verdict is: {request.value}", "status": "Approved"},
        token=_token(request, pipeline),
    )
    return f"{request.value}: approved"


def _token(request: Request, pipeline: Pipeline) -> str:
    """The token of this execution's open approval, which opens moments after the job starts."""
    for _ in range(int(OPENS_WITHIN_S / LOOK_EVERY_S)):
        for stage in pipeline.codepipeline.get_pipeline_state(name=pipeline.name)["stageStates"]:
            current = stage.get("latestExecution", {}).get("pipelineExecutionId") == request.execution
            if not current or stage.get("stageName") != request.stage:
                continue
            for action in stage.get("actionStates", []):
                latest = action.get("latestExecution", {})
                token = latest.get("token")
                if action.get("actionName") == request.action and latest.get("status") == "InProgress" and token:
                    return token
        pipeline.sleep(LOOK_EVERY_S)
    raise TimeoutError(f"{request.action} of {request.stage} did not open within {OPENS_WITHIN_S:.0f} s")

"""The operations of CodePipeline's API that pipelines, and who looks at them, call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ministack.core.responses import get_account_id, get_region

from local.emulator.codepipeline import store
from local.emulator.codepipeline.store import CodePipelineError, Pipeline

Request = dict[str, Any]


def _list(_request: Request) -> Request:
    listed = [
        {"name": item.name, "version": item.version, "created": item.created, "updated": item.updated}
        for item in store.PIPELINES.values()
    ]
    return {"pipelines": listed}


def _get(request: Request) -> Request:
    pipeline = store.find(request["name"])
    return {
        "pipeline": {**pipeline.declaration, "version": pipeline.version},
        "metadata": {"pipelineArn": store.arn(pipeline.name), "created": pipeline.created, "updated": pipeline.updated},
    }


def _state(request: Request) -> Request:
    pipeline = store.find(request["name"])
    return {
        "pipelineName": pipeline.name,
        "pipelineVersion": pipeline.version,
        "created": pipeline.created,
        "updated": pipeline.updated,
        "stageStates": [_stage(pipeline, declared) for declared in pipeline.declaration["stages"]],
    }


def _stage(pipeline: Pipeline, declared: Request) -> Request:
    name = declared["name"]
    state: Request = {
        "stageName": name,
        "inboundTransitionState": {"enabled": True},
        "actionStates": [
            {"actionName": action["name"]}
            | (
                {"latestExecution": pipeline.actions[name, action["name"]]}
                if (name, action["name"]) in pipeline.actions
                else {}
            )
            for action in declared["actions"]
        ],
    }
    if name in pipeline.stages:
        state["latestExecution"] = {"pipelineExecutionId": pipeline.execution, "status": pipeline.stages[name]}
    return state


def _approve(request: Request) -> Request:
    pipeline = store.find(request["pipelineName"])
    stage, action = request["stageName"], request["actionName"]
    if pipeline.action(stage, action)["actionTypeId"]["category"] != "Approval":
        raise CodePipelineError("ActionNotFoundException", f"{stage}/{action} is not an approval action.")
    latest = pipeline.actions.get((stage, action))
    if latest is None:
        raise CodePipelineError("InvalidApprovalTokenException", f"{stage}/{action} is not waiting for an approval.")
    if latest["status"] != "InProgress":
        raise CodePipelineError("ApprovalAlreadyCompletedException", f"{stage}/{action} is decided already.")
    if request["token"] != latest["token"]:
        raise CodePipelineError("InvalidApprovalTokenException", f"The token is not that of {stage}/{action}.")
    result = request["result"]
    if result["status"] not in ("Approved", "Rejected"):
        raise CodePipelineError("ValidationException", f"status is {result['status']!r}; allowed: Approved, Rejected")
    latest["status"] = "Succeeded" if result["status"] == "Approved" else "Failed"
    latest["summary"] = result["summary"]
    latest["lastStatusChange"] = store.now()
    if latest["status"] == "Failed":
        latest["errorDetails"] = {"code": "ApprovalRejected", "message": result["summary"]}
    return {"approvedAt": store.now()}


def _executions(request: Request) -> Request:
    pipeline = store.find(request["pipelineName"])
    if not pipeline.execution:
        return {"pipelineExecutionSummaries": []}
    return {"pipelineExecutionSummaries": [{"pipelineExecutionId": pipeline.execution, "status": _overall(pipeline)}]}


def _execution(request: Request) -> Request:
    pipeline = store.find(request["pipelineName"])
    if not pipeline.execution or request["pipelineExecutionId"] != pipeline.execution:
        raise CodePipelineError(
            "PipelineExecutionNotFoundException", f"{pipeline.name} has no execution {request['pipelineExecutionId']}"
        )
    return {
        "pipelineExecution": {
            "pipelineName": pipeline.name,
            "pipelineVersion": pipeline.version,
            "pipelineExecutionId": pipeline.execution,
            "status": _overall(pipeline),
        }
    }


def _overall(pipeline: Pipeline) -> str:
    statuses = list(pipeline.stages.values())
    if "Failed" in statuses:
        return "Failed"
    done = len(statuses) == len(pipeline.declaration["stages"]) and set(statuses) == {"Succeeded"}
    return "Succeeded" if done else "InProgress"


def _tags(request: Request) -> Request:
    prefix = f"arn:aws:codepipeline:{get_region()}:{get_account_id()}:"
    pipeline = store.find(str(request["resourceArn"]).removeprefix(prefix))
    return {"tags": [{"key": key, "value": value} for key, value in pipeline.tags.items()]}


def _job_succeeded(request: Request) -> Request:
    job = _job(request)
    if request.get("continuationToken"):
        raise CodePipelineError("ValidationException", "continuation tokens are not emulated here.")
    job.update(status="Succeeded", variables=request.get("outputVariables", {}))
    return {}


def _job_failed(request: Request) -> Request:
    _job(request).update(status="Failed", message=request["failureDetails"]["message"])
    return {}


def _job(request: Request) -> Request:
    job: Request | None = store.JOBS.get(request["jobId"])
    if job is None:
        raise CodePipelineError("JobNotFoundException", f"There is no job {request['jobId']}.")
    if job["status"] != "InProgress":
        raise CodePipelineError("InvalidJobStateException", f"The job {request['jobId']} has ended already.")
    return job


OPERATIONS: dict[str, Callable[[Request], Request]] = {
    "ListPipelines": _list,
    "GetPipeline": _get,
    "GetPipelineState": _state,
    "GetPipelineExecution": _execution,
    "ListPipelineExecutions": _executions,
    "ListTagsForResource": _tags,
    "PutApprovalResult": _approve,
    "PutJobFailureResult": _job_failed,
    "PutJobSuccessResult": _job_succeeded,
}

"""The pipelines of the world: definitions in the API's form, and how far each execution came."""

from __future__ import annotations

import datetime
import uuid
from dataclasses import dataclass, field
from typing import Any

from ministack.core.responses import AccountRegionScopedDict, get_account_id, get_region


class CodePipelineError(Exception):
    """A request that is refused, with the API's error code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass
class Pipeline:
    """One pipeline; `actions` holds the latest execution of an action by (stage, action)."""

    declaration: dict[str, Any]
    tags: dict[str, str]
    version: int = 1
    created: float = 0
    updated: float = 0
    execution: str = ""
    stages: dict[str, str] = field(default_factory=dict)
    actions: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.declaration["name"])

    def action(self, stage: str, action: str) -> dict[str, Any]:
        """The declaration of an action, or a refusal that names it."""
        for declared in self.declaration["stages"]:
            if declared["name"] == stage:
                for found in declared["actions"]:
                    if found["name"] == action:
                        return dict(found)
                raise CodePipelineError("ActionNotFoundException", f"Stage {stage} has no action {action}.")
        raise CodePipelineError("StageNotFoundException", f"Pipeline {self.name} has no stage {stage}.")


PIPELINES = AccountRegionScopedDict()
JOBS = AccountRegionScopedDict()
"""Jobs of functions by id: {status, message, variables}."""


def arn(name: str) -> str:
    """The ARN of a pipeline of this account and region."""
    return f"arn:aws:codepipeline:{get_region()}:{get_account_id()}:{name}"


def find(name: str) -> Pipeline:
    """A pipeline, or the refusal of one that is not there."""
    found: Pipeline | None = PIPELINES.get(name)
    if found is None:
        raise CodePipelineError(
            "PipelineNotFoundException", f"Account '{get_account_id()}' does not have a pipeline with name '{name}'"
        )
    return found


def now() -> float:
    """Seconds since 1970, as the JSON protocol has times."""
    return datetime.datetime.now(datetime.UTC).timestamp()


def order(wish: dict[str, Any]) -> dict[str, Any]:
    """What the executor tells of an execution: a new one begins, or an action stands otherwise.

    Args:
        wish: {pipeline, execution} begins one. {pipeline, stage, action, status, ...} sets what GetPipelineState says
            of the action; an approval that is put as InProgress is given its token, which is answered.
            {pipeline, stage, stage_status} sets what it says of the stage.
            {pipeline, new_job} answers the id of a job for a function, {pipeline, job} what it has said of it.
    """
    pipeline = find(wish["pipeline"])
    if "execution" in wish:
        if wish["execution"] != pipeline.execution:
            pipeline.execution = wish["execution"]
            pipeline.stages.clear()
            pipeline.actions.clear()
        return {}
    if "new_job" in wish:
        job = str(uuid.uuid4())
        JOBS[job] = {"status": "InProgress"}
        return {"job": job}
    if "job" in wish:
        return dict(JOBS[wish["job"]])
    if "action" not in wish:
        pipeline.stages[wish["stage"]] = wish["stage_status"]
        return {}
    stage, action = wish["stage"], wish["action"]
    declared = pipeline.action(stage, action)
    latest: dict[str, Any] = {
        "actionExecutionId": str(uuid.uuid4()),
        "status": wish["status"],
        "lastStatusChange": now(),
        **{key: wish[key] for key in ("summary", "externalExecutionId", "externalExecutionUrl") if wish.get(key)},
    }
    if wish.get("error"):
        latest["errorDetails"] = {"code": "JobFailed", "message": wish["error"]}
    if declared["actionTypeId"]["category"] == "Approval" and wish["status"] == "InProgress":
        latest["token"] = str(uuid.uuid4())
    pipeline.actions[stage, action] = latest
    pipeline.stages[stage] = "InProgress"
    return {"token": latest.get("token", "")}

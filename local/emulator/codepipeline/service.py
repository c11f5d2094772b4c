"""CodePipeline as a service of the world: its JSON protocol, its place in the router and in IAM."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import botocore.session
from botocore.model import ServiceModel
from botocore.validate import ParamValidator
from ministack import app
from ministack.core import iam_actions, router
from ministack.services import tagging

from local.emulator.codepipeline import store
from local.emulator.codepipeline.store import CodePipelineError

TARGET = "CodePipeline_20150709"
_NAMES = ("name", "pipelineName")


@cache
def model() -> ServiceModel:
    loader = botocore.session.Session().get_component("data_loader")
    return ServiceModel(loader.load_service_model("codepipeline", "service-2"), "codepipeline")


def validate(operation: str, request: dict[str, Any]) -> None:
    """Raise CodePipelineError for input that the API's own model refuses."""
    shape: Any = model().operation_model(operation).input_shape
    report = ParamValidator().validate(request, shape)
    if report.has_errors():
        raise CodePipelineError("ValidationException", report.generate_report())


async def handle(_method: str, _path: str, headers: dict[str, str], body: bytes, _query: dict[str, Any]) -> Any:
    """One HTTP request."""
    from local.emulator.codepipeline.operations import OPERATIONS

    operation = headers.get("x-amz-target", "").rpartition(".")[2]
    answer_headers = {"Content-Type": "application/x-amz-json-1.1"}
    try:
        if operation not in OPERATIONS:
            raise CodePipelineError("InvalidAction", f"{operation} is not emulated here.")
        request = json.loads(body or b"{}")
        validate(operation, request)
        answer = OPERATIONS[operation](request)
    except CodePipelineError as error:
        return 400, answer_headers, json.dumps({"__type": error.code, "message": error.message}).encode()
    return 200, answer_headers, json.dumps(answer).encode()


def resource(request: dict[str, Any], region: str, account: str) -> str:
    """The ARN that a request is authorized on: a pipeline, or the approval action in it."""
    prefix = f"arn:aws:codepipeline:{region}:{account}:"
    name = next((request[key] for key in _NAMES if isinstance(request.get(key), str)), None)
    if name is None:
        return str(request.get("resourceArn") or "*")
    parts = [name, *(str(request[key]) for key in ("stageName", "actionName") if key in request)]
    return prefix + "/".join(parts)


def install() -> None:
    """Add the service: without the IAM name, AUTH would let every call through."""
    router.SERVICE_PATTERNS["codepipeline"] = {
        "target_prefixes": [TARGET],
        "host_patterns": [r"^codepipeline\."],
        "credential_scope": "codepipeline",
    }
    app.SERVICE_HANDLERS["codepipeline"] = handle
    iam_actions.SERVICE_TO_IAM_NAMESPACE["codepipeline"] = "codepipeline"
    extract_others = iam_actions.extract_resource_arn
    tags_elsewhere = tagging.resource_tags

    def extract(service: str, method: str, path: str, headers: dict[str, str], body: bytes, *rest: Any) -> Any:
        if service != "codepipeline":
            return extract_others(service, method, path, headers, body, *rest)
        try:
            request = json.loads(body or b"{}")
        except json.JSONDecodeError:
            return "*"
        _query, region, account = rest
        return resource(request, region, account)

    def tags(resource_arn: str) -> Any:
        if not resource_arn.startswith("arn:aws:codepipeline:"):
            return tags_elsewhere(resource_arn)
        found = store.PIPELINES.get(resource_arn.split(":", 5)[5].partition("/")[0])
        return found.tags if found else {}

    iam_actions.extract_resource_arn = extract
    tagging.resource_tags = tags

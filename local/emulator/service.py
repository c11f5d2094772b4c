"""A JSON service of AWS in ministack: its place in the router and in IAM, and input checked by botocore's model."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import botocore.session
from botocore.model import ServiceModel
from botocore.validate import ParamValidator
from ministack import app
from ministack.core import iam_actions, router

Request = dict[str, Any]
Operations = Mapping[str, Callable[[Request], Request]]


class ApiError(Exception):
    """An error answer of an AWS API."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.status = code, message, status


def installed(package: str) -> Path:
    """The folder of a package of local/.venv; raises RuntimeError when it is not installed."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise RuntimeError(f"{package} is not installed in local/.venv: run `uv sync` in local/")
    return Path(spec.origin).parent


@cache
def service_description(service: str) -> Any:
    """botocore's description of a service, as JSON. To read that of EC2 takes half a second."""
    return botocore.session.Session().get_component("data_loader").load_service_model(service, "service-2")


@cache
def service_model(service: str) -> ServiceModel:
    """botocore's model of a service."""
    return ServiceModel(service_description(service), service)


def _outside(value: Any, shape: Any, path: str) -> list[str]:
    """What botocore's validator leaves to the service: enums and upper limits."""
    if shape.type_name == "structure":
        return [fault for key, item in value.items() for fault in _outside(item, shape.members[key], f"{path}.{key}")]
    if shape.type_name == "list":
        return [fault for item in value for fault in _outside(item, shape.member, path)]
    limits = shape.metadata
    if limits.get("enum") and value not in limits["enum"]:
        return [f"{path[1:]} {value} is not valid: one of {', '.join(limits['enum'])}."]
    if shape.type_name in {"integer", "long"} and value > limits.get("max", value):
        return [f"{path[1:]} {value} is not valid: at most {limits['max']}."]
    return []


def perform(service: str, operations: Operations, operation: str, request: Request, code: str) -> Request:
    """Carry out one operation.

    Raises:
        ApiError: the operation refuses it; or, with `code`, the model does: types, required members, ranges, enums.
    """
    if operation not in operations:
        raise ApiError(code, f"{operation} is not emulated here.")
    shape: Any = service_model(service).operation_model(operation).input_shape
    report = ParamValidator().validate(request, shape)
    faults = [report.generate_report()] if report.has_errors() else list(_outside(request, shape, ""))
    if faults:
        raise ApiError(code, "; ".join(faults))
    return operations[operation](request)


def provide(name: str, model: str, operations: Operations, code: str) -> None:
    """Add the service `name` with botocore's `model`; `code` is its error for invalid input."""
    prefix = service_model(model).metadata["targetPrefix"]
    router.SERVICE_PATTERNS[name] = {
        "target_prefixes": [prefix],
        "host_patterns": [rf"^{re.escape(name)}\."],
        "credential_scope": name,
    }

    async def handle(_method: str, _path: str, headers: dict[str, str], body: bytes, _query: Request) -> Any:
        operation = headers.get("x-amz-target", "").rpartition(".")[2]
        status = 200
        try:
            answer = perform(model, operations, operation, json.loads(body or b"{}"), code)
        except ApiError as error:
            status, answer = error.status, {"__type": error.code, "Message": error.message}
        return status, {"Content-Type": "application/x-amz-json-1.1"}, json.dumps(answer).encode()

    app.SERVICE_HANDLERS[name] = handle
    # Without the IAM name every call would be allowed.
    iam_actions.SERVICE_TO_IAM_NAMESPACE[name] = name

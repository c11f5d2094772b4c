"""FSx as a service of the emulator: its JSON protocol, its place in the router and in IAM."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import botocore.session
from botocore.model import ServiceModel
from botocore.validate import ParamValidator
from ministack import app
from ministack.core import iam_actions, router

from local.emulator.fsx.operations import OPERATIONS
from local.emulator.fsx.store import FsxError
from local.emulator.wire import Ec2Error

TARGET = "AWSSimbaAPIService"


@cache
def model() -> ServiceModel:
    loader = botocore.session.Session().get_component("data_loader")
    return ServiceModel(loader.load_service_model("fsx", "service-2"), "fsx")


def perform(operation: str, request: dict[str, Any]) -> dict[str, Any]:
    """Carry out one operation; raises FsxError for input that the API's own model or FSx itself refuses."""
    if operation not in OPERATIONS:
        raise FsxError("UnsupportedOperation", f"{operation} is not emulated here.")
    shape: Any = model().operation_model(operation).input_shape
    report = ParamValidator().validate(request, shape)
    if report.has_errors():
        raise FsxError("BadRequest", report.generate_report())
    try:
        return OPERATIONS[operation](request)
    except Ec2Error as error:
        raise FsxError("InvalidNetworkSettings", str(error)) from error


async def handle(_method: str, _path: str, headers: dict[str, str], body: bytes, _query: dict[str, Any]) -> Any:
    """One HTTP request."""
    operation = headers.get("x-amz-target", "").rpartition(".")[2]
    answer_headers = {"Content-Type": "application/x-amz-json-1.1"}
    try:
        answer = perform(operation, json.loads(body or b"{}"))
    except FsxError as error:
        fault = {"__type": error.code, "Message": error.message}
        return 400, answer_headers, json.dumps(fault).encode()
    return 200, answer_headers, json.dumps(answer).encode()


def install() -> None:
    """Add the service: without the IAM name, AUTH would let every call through."""
    router.SERVICE_PATTERNS["fsx"] = {
        "target_prefixes": [TARGET],
        "host_patterns": [r"^fsx\."],
        "credential_scope": "fsx",
    }
    app.SERVICE_HANDLERS["fsx"] = handle
    iam_actions.SERVICE_TO_IAM_NAMESPACE["fsx"] = "fsx"

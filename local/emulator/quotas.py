"""Service Quotas: AWS's default values, and those that a seed raised or lowered.

Only the quotas that a deployment of this project comes near are listed; any other is not there. Defaults as AWS's
reference and guides had them on 2026-11-21 ("Amazon EC2 quotas", "Amazon VPC quotas", FSx guides "Quotas"); an account
of some age has more. As on AWS, a quota that nobody changed stands among the defaults, and a changed one among the
applied values too.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import botocore.session
from botocore.model import ServiceModel
from botocore.validate import ParamValidator
from ministack import app
from ministack.core import iam_actions, router
from ministack.core.responses import AccountRegionScopedDict, get_account_id, get_region

TARGET = "ServiceQuotasV20190624"
_LARGE_OPENZFS = ("us-east-1", "us-east-2", "us-west-2")

NAMES: dict[str, tuple[str, float]] = {
    "ec2/L-0263D0A3": ("EC2-VPC Elastic IPs", 5),
    "ec2/L-1216C47A": ("Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", 5),
    "ec2/L-DB2E81BA": ("Running On-Demand G and VT instances", 0),
    "ec2/L-417A185B": ("Running On-Demand P instances", 0),
    "ec2/L-2C3B7624": ("Running On-Demand Trn instances", 0),
    "ec2/L-1945791B": ("Running On-Demand Inf instances", 0),
    "ec2/L-34B43A08": ("All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests", 5),
    "ec2/L-3819A6DF": ("All G and VT Spot Instance Requests", 0),
    "ec2/L-7212CCBC": ("All P4, P3 and P2 Spot Instance Requests", 0),
    "ec2/L-C4BD4855": ("All P5 Spot Instance Requests", 0),
    "vpc/L-F678F1CE": ("VPCs per Region", 5),
    "vpc/L-FE5A380F": ("NAT gateways per Availability Zone", 5),
    "fsx/L-FD6F2F22": ("Lustre Persistent_2 file systems", 100),
    "fsx/L-8F1B9C74": ("Lustre Persistent_2 storage capacity", 100800),
    "fsx/L-59D0763F": ("OpenZFS file systems", 100),
    "fsx/L-88479C21": ("OpenZFS SSD storage capacity", 65536),
    "fsx/L-4EDE4065": ("OpenZFS throughput capacity", 10240),
    "fsx/L-E24B4DE4": ("OpenZFS disk IOPS", 160000),
}
"""Name and default value by `<service>/<code>`."""

APPLIED: Any = AccountRegionScopedDict()


class QuotaError(Exception):
    """An error answer of Service Quotas."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message = code, message


def apply(key: str, value: float) -> None:
    """Give a quota, by `<service>/<code>`, another value; raises QuotaError for one that is not known."""
    if key not in NAMES:
        raise QuotaError("NoSuchResourceException", f"no quota {key}; known are {', '.join(NAMES)}")
    if value < 0:
        raise QuotaError("IllegalArgumentException", f"{key} is {value}, which is below 0")
    APPLIED[key] = value


def default(key: str) -> float:
    """AWS's default of a quota in the current region."""
    larger = {"fsx/L-88479C21": 262144.0, "fsx/L-E24B4DE4": 400000.0}
    return larger[key] if key in larger and get_region() in _LARGE_OPENZFS else NAMES[key][1]


def _quota(key: str, value: float) -> dict[str, Any]:
    service, _, code = key.partition("/")
    return {
        "ServiceCode": service,
        "ServiceName": service,
        "QuotaArn": f"arn:aws:servicequotas:{get_region()}:{get_account_id()}:{service}/{code}",
        "QuotaCode": code,
        "QuotaName": NAMES[key][0],
        "Value": value,
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }


def _of(service: str) -> list[str]:
    found = [key for key in NAMES if key.startswith(f"{service}/")]
    if not found:
        raise QuotaError("NoSuchResourceException", f"The request failed because the service {service} does not exist.")
    return found


def _page(request: dict[str, Any], quotas: list[dict[str, Any]]) -> dict[str, Any]:
    try:
        start = int(request.get("NextToken") or 0)
    except ValueError:
        raise QuotaError("InvalidPaginationTokenException", "Invalid token was used.") from None
    end = start + int(request.get("MaxResults") or 100)
    return {"Quotas": quotas[start:end], **({"NextToken": str(end)} if end < len(quotas) else {})}


def _list_applied(request: dict[str, Any]) -> dict[str, Any]:
    keys = [key for key in _of(request["ServiceCode"]) if key in APPLIED]
    return _page(request, [_quota(key, APPLIED[key]) for key in keys])


def _list_defaults(request: dict[str, Any]) -> dict[str, Any]:
    return _page(request, [_quota(key, default(key)) for key in _of(request["ServiceCode"])])


def _one(request: dict[str, Any]) -> str:
    key = f"{request['ServiceCode']}/{request['QuotaCode']}"
    if key not in NAMES:
        raise QuotaError("NoSuchResourceException", "The request failed because the specified quota does not exist.")
    return key


def _get_applied(request: dict[str, Any]) -> dict[str, Any]:
    key = _one(request)
    return {"Quota": _quota(key, APPLIED.get(key, default(key)))}


def _get_default(request: dict[str, Any]) -> dict[str, Any]:
    key = _one(request)
    return {"Quota": _quota(key, default(key))}


OPERATIONS = {
    "ListServiceQuotas": _list_applied,
    "ListAWSDefaultServiceQuotas": _list_defaults,
    "GetServiceQuota": _get_applied,
    "GetAWSDefaultServiceQuota": _get_default,
}


@cache
def model() -> ServiceModel:
    loader = botocore.session.Session().get_component("data_loader")
    return ServiceModel(loader.load_service_model("service-quotas", "service-2"), "service-quotas")


def perform(operation: str, request: dict[str, Any]) -> dict[str, Any]:
    """Carry out one operation; raises QuotaError for input that the API's own model or the service refuses."""
    if operation not in OPERATIONS:
        raise QuotaError("IllegalArgumentException", f"{operation} is not emulated here.")
    shape: Any = model().operation_model(operation).input_shape
    report = ParamValidator().validate(request, shape)
    if report.has_errors():
        raise QuotaError("IllegalArgumentException", report.generate_report())
    return OPERATIONS[operation](request)


async def handle(_method: str, _path: str, headers: dict[str, str], body: bytes, _query: dict[str, Any]) -> Any:
    """One HTTP request."""
    operation = headers.get("x-amz-target", "").rpartition(".")[2]
    answer_headers = {"Content-Type": "application/x-amz-json-1.1"}
    try:
        answer = perform(operation, json.loads(body or b"{}"))
    except QuotaError as error:
        return 400, answer_headers, json.dumps({"__type": error.code, "Message": error.message}).encode()
    return 200, answer_headers, json.dumps(answer).encode()


def install() -> None:
    """Add the service: without the IAM name, AUTH would let every call through."""
    router.SERVICE_PATTERNS["servicequotas"] = {
        "target_prefixes": [TARGET],
        "host_patterns": [r"^servicequotas\."],
        "credential_scope": "servicequotas",
    }
    app.SERVICE_HANDLERS["servicequotas"] = handle
    iam_actions.SERVICE_TO_IAM_NAMESPACE["servicequotas"] = "servicequotas"

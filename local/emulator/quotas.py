"""Service Quotas: the quotas that the preflight reads, with AWS's defaults and those that seeds change.

Names and defaults are those of a new account in AWS's guides on 2026-11-21 ("Amazon EC2 quotas", "Amazon VPC quotas",
FSx guides "Quotas"). As on AWS, an unchanged quota is among the defaults only, a changed one among the applied too.
"""

from __future__ import annotations

from typing import Any

from ministack.core.responses import AccountRegionScopedDict, get_account_id, get_region

from local.emulator import service
from local.emulator.service import ApiError, Request
from local.emulator.wire import page

_LARGE_OPENZFS = ("us-east-1", "us-east-2", "us-west-2")
_LARGER = {"fsx/L-88479C21": 262144.0, "fsx/L-E24B4DE4": 400000.0}

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
    "fsx/L-9AFA1F09": ("Lustre Persistent_1 file systems", 100),
    "fsx/L-C8640C82": ("Lustre Persistent_1 storage capacity", 100800),
    "fsx/L-C48231E5": ("Lustre Scratch file systems", 100),
    "fsx/L-AD2FC696": ("Lustre Scratch storage capacity", 100800),
    "fsx/L-59D0763F": ("OpenZFS file systems", 100),
    "fsx/L-88479C21": ("OpenZFS SSD storage capacity", 65536),
    "fsx/L-4EDE4065": ("OpenZFS throughput capacity", 10240),
    "fsx/L-E24B4DE4": ("OpenZFS disk IOPS", 160000),
}
"""Name and default value by `<service>/<code>`."""

APPLIED: Any = AccountRegionScopedDict()


def apply(key: str, value: float) -> None:
    """Give a quota, by `<service>/<code>`, another value; raises ApiError for an unknown one."""
    if key not in NAMES:
        raise ApiError("NoSuchResourceException", f"no quota {key}; known are {', '.join(NAMES)}")
    if value < 0:
        raise ApiError("IllegalArgumentException", f"{key} is {value}, which is below 0")
    APPLIED[key] = value


def _quota(key: str, *, applied: bool) -> Request:
    service_code, _, code = key.partition("/")
    default = _LARGER.get(key, NAMES[key][1]) if get_region() in _LARGE_OPENZFS else NAMES[key][1]
    return {
        "ServiceCode": service_code,
        "ServiceName": service_code,
        "QuotaArn": f"arn:aws:servicequotas:{get_region()}:{get_account_id()}:{key}",
        "QuotaCode": code,
        "QuotaName": NAMES[key][0],
        "Value": APPLIED.get(key, default) if applied else default,
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }


def _list(request: Request, *, applied: bool) -> Request:
    keys = [key for key in NAMES if key.startswith(f"{request['ServiceCode']}/")]
    if not keys:
        message = f"The request failed because the service {request['ServiceCode']} does not exist."
        raise ApiError("NoSuchResourceException", message)
    quotas = [_quota(key, applied=applied) for key in keys if key in APPLIED or not applied]
    return page(request, quotas, "Quotas")


def install() -> None:
    """Add the service."""
    operations = {
        "ListServiceQuotas": lambda request: _list(request, applied=True),
        "ListAWSDefaultServiceQuotas": lambda request: _list(request, applied=False),
    }
    service.provide("servicequotas", "service-quotas", operations, "IllegalArgumentException")

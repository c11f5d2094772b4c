"""Quotas by their code in Service Quotas, or by their name where AWS has another code for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from ops.preflight.aws import Reader, code_of


@dataclass(frozen=True)
class Quota:
    """A quota of one service (its code in Service Quotas: ec2, vpc, fsx). `code` may be empty: found by name then."""

    service: str
    name: str
    code: str = ""


@dataclass(frozen=True)
class Value:
    """A quota's value. `default`: nobody raised it, as far as Service Quotas tells. `code` is the one AWS names."""

    amount: float
    code: str
    name: str
    default: bool


class Quotas:
    """The quotas of an account in a region, each service's listed once."""

    def __init__(self, aws: Reader) -> None:
        self._aws = aws
        self._lists: dict[tuple[str, str], list[dict[str, Any]]] = {}

    def value(self, quota: Quota) -> Value | None:
        """The applied value, else AWS's default, which counts where nothing was applied; None where AWS lists neither.

        Raises:
            Denied: Service Quotas may not be asked.
        """
        for operation, default in (("list_service_quotas", False), ("list_aws_default_service_quotas", True)):
            found = self._listed(quota.service, operation)
            match = next((item for item in found if quota.code and item["QuotaCode"] == quota.code), None) or next(
                (item for item in found if _same(item["QuotaName"], quota.name)), None
            )
            if match is not None and "Value" in match:
                return Value(float(match["Value"]), match["QuotaCode"], match["QuotaName"], default)
        return None

    def _listed(self, service: str, operation: str) -> list[dict[str, Any]]:
        key = (service, operation)
        if key not in self._lists:
            try:
                self._lists[key] = list(self._aws.items("service-quotas", operation, "Quotas", ServiceCode=service))
            except ClientError as error:
                if code_of(error) != "NoSuchResourceException":
                    raise
                self._lists[key] = []
        return self._lists[key]


def _same(one: str, other: str) -> bool:
    return "".join(one.lower().split()) == "".join(other.lower().split())


def raise_it(value: Value | None, quota: Quota, amount: float, region: str) -> str:
    """What to do where a quota is too small."""
    code = value.code if value else quota.code
    command = (
        f"aws service-quotas request-service-quota-increase --region {region} --service-code {quota.service} "
        f"--quota-code {code or '<code>'} --desired-value {amount:g}"
    )
    return f"ask for a higher quota, which may take days: {command}"

"""Quotas of Service Quotas: found by code, or by name if the code is unknown or has changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from ops.preflight.aws import Reader, code_of
from ops.preflight.results import CheckResult, Verdict, judged


@dataclass(frozen=True)
class Quota:
    """A quota of a service (its code in Service Quotas: ec2, vpc, fsx). `code` may be empty."""

    service: str
    name: str
    code: str = ""


@dataclass(frozen=True)
class Value:
    """A quota's value. `default`: it is AWS's default. `code` is the one that Service Quotas lists."""

    amount: float
    code: str
    default: bool


class Quotas:
    """The quotas of an account in a region. Each service is listed once."""

    def __init__(self, aws: Reader) -> None:
        self._aws = aws
        self._lists: dict[tuple[str, str], list[dict[str, Any]]] = {}

    def value(self, quota: Quota) -> Value | None:
        """The applied value, else AWS's default; None if Service Quotas lists neither.

        Raises:
            Denied: reading Service Quotas is not allowed.
        """
        for operation, default in (("list_service_quotas", False), ("list_aws_default_service_quotas", True)):
            found = self._listed(quota.service, operation)
            match = next((item for item in found if quota.code and item["QuotaCode"] == quota.code), None) or next(
                (item for item in found if _normal(item["QuotaName"]) == _normal(quota.name)), None
            )
            if match is not None and "Value" in match:
                return Value(float(match["Value"]), match["QuotaCode"], default)
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

    def check(self, quota: Quota, total: float, unit: str, needs: str, *, asked: str, region: str) -> CheckResult:
        """Whether a quota allows `total`. `needs` says what adds up to it; `asked` is the call that counted."""
        value = self.value(quota)
        calls = f"servicequotas:ListServiceQuotas, {asked}"
        wanted = f"{total:g} {unit}: {needs}"
        if value is None:
            subject = f"{quota.name} ({quota.code or 'by name'})"
            todo = f"look for it in the console, under Service Quotas, {quota.service}"
            found = "Service Quotas does not list it"
            return CheckResult("quotas", subject, calls, found, wanted, Verdict.UNKNOWN, todo)
        return judged(
            "quotas",
            f"{quota.name} ({value.code})",
            calls,
            f"{value.amount:g} {unit}" + (", the default" if value.default else ""),
            wanted,
            ok=value.amount >= total,
            todo="request an increase, which may take days: aws service-quotas request-service-quota-increase "
            f"--region {region} --service-code {quota.service} --quota-code {value.code} --desired-value {total:g}",
        )


def _normal(name: str) -> str:
    return "".join(name.lower().split())

"""Quotas of Service Quotas: found by code, or by name if the code is unknown or has changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from ops.preflight.aws import Aws, code_of
from ops.preflight.results import CheckResult, Verdict, judged


@dataclass(frozen=True)
class Quota:
    """A quota of a service (its code in Service Quotas: ec2, vpc, fsx). `code` may be empty."""

    service: str
    name: str
    code: str = ""


class Quotas:
    """The quotas of an account in a region. Each service is listed once."""

    def __init__(self, aws: Aws, region: str) -> None:
        self._aws = aws
        self._region = region
        self._lists: dict[tuple[str, str], list[dict[str, Any]]] = {}

    def check(
        self, quota: Quota, ours: float, others: float, unit: str, *, asked: str, reasons: str = "this environment"
    ) -> CheckResult:
        """Whether a quota allows what the environment has or adds, together with the others in the account.

        Args:
            ours, others: what the environment needs for `reasons`, and what the rest of the account has.
            asked: the call that counted the others.

        Raises:
            Denied: reading Service Quotas is not allowed.
        """
        total = ours + others
        calls = f"servicequotas:ListServiceQuotas, {asked}"
        wanted = f"{total:g} {unit}: {ours:g} for {reasons}" + (f", {others:g} of others" if others else "")
        # The applied values lack quotas that were never changed.
        applied = self._find(quota, "list_service_quotas")
        known = applied or self._find(quota, "list_aws_default_service_quotas")
        if known is None:
            subject = f"{quota.name} ({quota.code or 'by name'})"
            todo = f"look for it in the console, under Service Quotas, {quota.service}"
            return CheckResult(subject, calls, "Service Quotas does not list it", wanted, Verdict.UNKNOWN, todo)
        value, code = float(known["Value"]), known["QuotaCode"]
        found = f"{value:g} {unit}{'' if applied else ', the default'}"
        todo = (
            "request an increase, which may take days: aws service-quotas request-service-quota-increase "
            f"--region {self._region} --service-code {quota.service} --quota-code {code} --desired-value {total:g}"
        )
        return judged(f"{quota.name} ({code})", calls, found, wanted, ok=value >= total, todo=todo)

    def _find(self, quota: Quota, operation: str) -> dict[str, Any] | None:
        listed = [item for item in self._listed(quota.service, operation) if "Value" in item]
        by_code = (item for item in listed if item["QuotaCode"] == quota.code)
        by_name = (item for item in listed if _normal(item["QuotaName"]) == _normal(quota.name))
        return next(by_code, None) or next(by_name, None)

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


def _normal(name: str) -> str:
    return "".join(name.lower().split())

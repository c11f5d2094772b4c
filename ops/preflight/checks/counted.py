"""One line for a quota on things that are counted or summed."""

from __future__ import annotations

from ops.preflight.line import Line, Verdict
from ops.preflight.question import Question
from ops.preflight.quotas import Quota, raise_it

CHECK = "quotas"


def counted(question: Question, quota: Quota, *, ours: float, others: float, unit: str, asked: str) -> Line:
    """Whether `quota` holds what the environment has or adds, `ours`, beside `others` of the account."""
    value = question.quotas.value(quota)
    total = ours + others
    wanted = f"{total:g} {unit}: {ours:g} for this environment" + (f", {others:g} of others" if others else "")
    calls = f"servicequotas:ListServiceQuotas, {asked}"
    if value is None:
        return Line(
            CHECK,
            quota.name,
            calls,
            "Service Quotas lists no such quota",
            wanted,
            Verdict.UNKNOWN,
            f"look for it in the console, under Service Quotas, {quota.service}",
        )
    enough = value.amount >= total
    return Line(
        CHECK,
        f"{quota.name} ({value.code})",
        calls,
        f"{value.amount:g} {unit}" + (", the default" if value.default else ""),
        wanted,
        Verdict.OK if enough else Verdict.FAULT,
        "" if enough else raise_it(value, quota, total, question.environment.region),
    )

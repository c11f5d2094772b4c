"""Retention of log groups, from days as the settings give them."""

from __future__ import annotations

from aws_cdk import aws_logs as logs

_RETENTION = {
    1: logs.RetentionDays.ONE_DAY,
    3: logs.RetentionDays.THREE_DAYS,
    5: logs.RetentionDays.FIVE_DAYS,
    7: logs.RetentionDays.ONE_WEEK,
    14: logs.RetentionDays.TWO_WEEKS,
    30: logs.RetentionDays.ONE_MONTH,
    60: logs.RetentionDays.TWO_MONTHS,
    90: logs.RetentionDays.THREE_MONTHS,
    180: logs.RetentionDays.SIX_MONTHS,
    365: logs.RetentionDays.ONE_YEAR,
}


def retention_days(days: int) -> logs.RetentionDays:
    """The CloudWatch Logs retention of that many days; ValueError where CloudWatch Logs has none such."""
    try:
        return _RETENTION[days]
    except KeyError:
        allowed = ", ".join(map(str, _RETENTION))
        raise ValueError(f"CloudWatch Logs keeps no logs for {days} days. Use one of {allowed}.") from None

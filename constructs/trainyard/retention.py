"""What outlives a stack, and for how long logs are kept, from the retention settings of an environment."""

from __future__ import annotations

from typing import TypeVar, cast

from aws_cdk import CfnDeletionPolicy, CfnResource, RemovalPolicy
from aws_cdk import aws_logs as logs
from constructs import Construct

Resource = TypeVar("Resource", bound=CfnResource)

_LOG_RETENTION = {
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


def keep(resource: Resource) -> Resource:
    """Keep the resource when its stack is deleted, and the old one when an update replaces it."""
    resource.apply_removal_policy(RemovalPolicy.RETAIN, apply_to_update_replace_policy=True)
    return resource


def delete_with_stack(resource: Resource) -> Resource:
    """Delete the resource with its stack, but keep the old one when an update replaces it.

    Users ask for a destroy by name. A replacement may be a side effect of an edit, and must not cost data.
    """
    resource.cfn_options.deletion_policy = CfnDeletionPolicy.DELETE
    resource.cfn_options.update_replace_policy = CfnDeletionPolicy.RETAIN
    return resource


def retain(resource: Resource, *, kept: bool) -> Resource:
    """`keep` or `delete_with_stack`, by a setting."""
    return keep(resource) if kept else delete_with_stack(resource)


def log_group(
    scope: Construct, construct_id: str, *, days: int, kept: bool, log_group_name: str | None = None
) -> logs.LogGroup:
    """A log group with the retention of `days`, kept or deleted by a setting."""
    group = logs.LogGroup(scope, construct_id, log_group_name=log_group_name, retention=retention_days(days))
    retain(cast(logs.CfnLogGroup, group.node.default_child), kept=kept)
    return group


def retention_days(days: int) -> logs.RetentionDays:
    """The CloudWatch Logs retention of that many days; ValueError where CloudWatch Logs has none such."""
    try:
        return _LOG_RETENTION[days]
    except KeyError:
        allowed = ", ".join(map(str, _LOG_RETENTION))
        raise ValueError(f"CloudWatch Logs keeps no logs for {days} days. Use one of {allowed}.") from None

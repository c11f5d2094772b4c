"""What outlives a stack, and for how long logs are kept, from the retention settings of an environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from aws_cdk import CfnDeletionPolicy, CfnResource, RemovalPolicy
from aws_cdk import aws_logs as logs
from constructs import Construct, IConstruct

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


def retain(resource: IConstruct | None, *, kept: bool) -> None:
    """Keep a CloudFormation resource when its stack is deleted, or not; keep the old one when an update replaces it.

    Users ask for a destroy by name. A replacement may be a side effect of an edit, and must not cost data. What a
    failed operation has just created is deleted: it holds nothing, and would go on costing.
    """
    resource = cast(CfnResource, resource)
    resource.apply_removal_policy(RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE, apply_to_update_replace_policy=True)
    if not kept:
        resource.cfn_options.deletion_policy = CfnDeletionPolicy.DELETE


def log_group(
    scope: Construct, construct_id: str, *, days: int, kept: bool, log_group_name: str | None = None
) -> logs.LogGroup:
    """A log group that keeps its events for `days` (the settings' LogDays) and outlives its stack if `kept`."""
    group = logs.LogGroup(scope, construct_id, log_group_name=log_group_name, retention=_LOG_RETENTION[days])
    retain(group.node.default_child, kept=kept)
    return group


@dataclass(frozen=True)
class FunctionLogs:
    """The logs of functions and of what calls them: for `days`, and beyond the stack's deletion if `kept`."""

    days: int
    kept: bool

    def group(self, scope: Construct) -> logs.LogGroup:
        """A log group that a replacement does not keep, unless `kept`."""
        policy = RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if self.kept else RemovalPolicy.DESTROY
        return logs.LogGroup(scope, "Log", retention=_LOG_RETENTION[self.days], removal_policy=policy)

"""Scheduled snapshots of OpenZFS volumes. FSx has no such schedule: its automatic backups are not snapshots."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct

from settings.model.storage import Snapshots
from trainyard.nag import acknowledge, acknowledge_resource
from trainyard.python_function import PythonFunction

_HANDLERS = Path(__file__).resolve().parents[2] / "lambda" / "volume_snapshots"
_TAG = "trainyard:scheduled-snapshot"


class VolumeSnapshots(Construct):
    """One function, and a schedule for each volume: `schedules` maps the volume's name to when and how many.

    The function and the policy of its role allow to delete only snapshots that it created.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        file_system_id: str,
        volume_ids: Mapping[str, str],
        schedules: Mapping[str, Snapshots],
    ) -> None:
        super().__init__(scope, construct_id)
        function = PythonFunction(
            self,
            "Function",
            entry=_HANDLERS,
            module="volume_snapshots/handler.py",
            description="Takes and deletes scheduled snapshots of OpenZFS volumes",
            timeout=Duration.minutes(1),
            log_removal=RemovalPolicy.DESTROY,
        )
        self._allow(function.role, file_system_id, {name: volume_ids[name] for name in schedules})
        role = iam.Role(
            self,
            "SchedulerRole",
            assumed_by=iam.ServicePrincipal(
                "scheduler.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self).account}}
            ),
            description="Starts the function that takes snapshots of OpenZFS volumes",
        )
        role.add_to_policy(
            iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=[function.function.function_arn])
        )
        for name, snapshots in schedules.items():
            scheduler.CfnSchedule(
                self,
                f"Schedule-{name}",
                description=f"Snapshots of the OpenZFS volume {name}",
                schedule_expression=_rate(snapshots.every_hours),
                flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
                target=scheduler.CfnSchedule.TargetProperty(
                    arn=function.function.function_arn,
                    role_arn=role.role_arn,
                    # The scheduler replaces the placeholder with the time of the call.
                    input=json.dumps(
                        {
                            "volume_id": volume_ids[name],
                            "keep": snapshots.keep,
                            "scheduled_time": "<aws.scheduler.scheduled-time>",
                        }
                    ),
                    retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(
                        maximum_event_age_in_seconds=3600, maximum_retry_attempts=3
                    ),
                ),
            )

    def _allow(self, role: iam.Role, file_system_id: str, volume_ids: Mapping[str, str]) -> None:
        stack = Stack.of(self)

        def arn(resource: str, name: str) -> str:
            return stack.format_arn(service="fsx", resource=resource, resource_name=name)

        volumes = [arn("volume", f"{file_system_id}/{volume_id}") for volume_id in volume_ids.values()]
        snapshots = [arn("snapshot", f"{volume_id}/*") for volume_id in volume_ids.values()]
        policy = iam.Policy(
            self,
            "Snapshots",
            roles=[role],
            statements=[
                iam.PolicyStatement(
                    actions=["fsx:CreateSnapshot"],
                    resources=[*volumes, *snapshots],
                ),
                iam.PolicyStatement(
                    actions=["fsx:TagResource"],
                    resources=snapshots,
                    conditions={"ForAllValues:StringEquals": {"aws:TagKeys": [_TAG]}},
                ),
                iam.PolicyStatement(
                    actions=["fsx:DeleteSnapshot"],
                    resources=snapshots,
                    conditions={"StringEquals": {f"aws:ResourceTag/{_TAG}": "true"}},
                ),
                iam.PolicyStatement(actions=["fsx:DescribeSnapshots"], resources=["*"]),
            ],
        )
        acknowledge(
            policy,
            "AwsSolutions-IAM5[Resource::*]",
            "fsx:DescribeSnapshots knows no resources; it reads names and states, and no data.",
        )
        for snapshot in snapshots:
            acknowledge_resource(
                policy,
                snapshot,
                "Future snapshots have no ids yet: the wildcard covers those of one volume, and only those with "
                "the schedule's tag may be deleted.",
            )


def _rate(hours: int) -> str:
    """A rate expression of EventBridge Scheduler, which requires the singular for one hour."""
    return "rate(1 hour)" if hours == 1 else f"rate({hours} hours)"

"""Scheduled snapshots of OpenZFS volumes. FSx has no such schedule: its automatic backups are not snapshots."""

from __future__ import annotations

import json
from collections.abc import Iterable

from aws_cdk import Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct

from settings.model.storage import OpenZfs
from trainyard.nag import ANY_RESOURCE, acknowledge, wildcard
from trainyard.openzfs import OpenZfsFileSystem
from trainyard.principals import own_service
from trainyard.python_function import PythonFunction
from trainyard.retention import FunctionLogs

_TAG = "trainyard:scheduled-snapshot"


class VolumeSnapshots(Construct):
    """One function, and a schedule for each volume whose settings have snapshots.

    The function and the policy of its role allow to delete only snapshots that it created.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, openzfs: OpenZfs, file_system: OpenZfsFileSystem
    ) -> None:
        super().__init__(scope, construct_id)
        made = PythonFunction(
            self,
            "Function",
            module="volume_snapshots/handler.py",
            description="Takes and deletes scheduled snapshots of OpenZFS volumes",
            timeout=Duration.minutes(1),
            logs=FunctionLogs(30, kept=False),
        )
        schedules = {volume.name: volume.snapshots for volume in openzfs.volumes if volume.snapshots}
        self._allow(made.role, file_system.file_system_id, [file_system.volume_ids[name] for name in schedules])
        role = iam.Role(
            self,
            "SchedulerRole",
            assumed_by=own_service(self, "scheduler.amazonaws.com"),
            description="Starts the function that takes snapshots of OpenZFS volumes",
        )
        function_arn = made.function.function_arn
        role.add_to_policy(iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=[function_arn]))
        for name, snapshots in schedules.items():
            hours = snapshots.every_hours
            event = {
                "volume_id": file_system.volume_ids[name],
                "keep": snapshots.keep,
                # The scheduler replaces the placeholder with the time of the call.
                "scheduled_time": "<aws.scheduler.scheduled-time>",
            }
            scheduler.CfnSchedule(
                self,
                f"Schedule-{name}",
                description=f"Snapshots of the OpenZFS volume {name}",
                schedule_expression="rate(1 hour)" if hours == 1 else f"rate({hours} hours)",
                flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
                target=scheduler.CfnSchedule.TargetProperty(
                    arn=function_arn,
                    role_arn=role.role_arn,
                    input=json.dumps(event),
                    retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(
                        maximum_event_age_in_seconds=3600, maximum_retry_attempts=3
                    ),
                ),
            )

    def _allow(self, role: iam.Role, file_system_id: str, volume_ids: Iterable[str]) -> None:
        stack = Stack.of(self)

        def arn(resource: str, name: str) -> str:
            return stack.format_arn(service="fsx", resource=resource, resource_name=name)

        volumes = [arn("volume", f"{file_system_id}/{volume_id}") for volume_id in volume_ids]
        snapshots = [arn("snapshot", f"{volume_id}/*") for volume_id in volume_ids]
        policy = iam.Policy(
            self,
            "Snapshots",
            roles=[role],
            statements=[
                iam.PolicyStatement(actions=["fsx:CreateSnapshot"], resources=[*volumes, *snapshots]),
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
        future = (
            "Future snapshots have no ids yet: the wildcard covers those of one volume, and only those with the "
            "schedule's tag may be deleted."
        )
        acknowledge(
            policy,
            {
                ANY_RESOURCE: "fsx:DescribeSnapshots takes no ARN; it reads names and states, and no data.",
                **{wildcard(self, snapshot): future for snapshot in snapshots},
            },
        )

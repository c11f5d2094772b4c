"""Events of AWS that an environment's topic receives."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_sns as sns
from constructs import Construct

from settings.model import Environment
from settings.stacks import parts, stack_name
from trainyard.cloudwatch_alarms import runbook


class EventNotifications(Construct):
    """EventBridge rules: ends of deployments, failed operations, alarms of ParallelCluster, and AWS Health.

    ParallelCluster's alarms of the head node (Health, Cpu, Mem, Disk, ClustermgtdHeartbeat) have no actions, and its
    configuration takes none (ParallelCluster 3.16.1, templates/cluster_stack.py): a rule reports when one of them
    starts. AWS Health has the account's events of all services, such as failing hardware and security notices.

    Args:
        state_machine_arn: of the custom resource of the cluster.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, environment: Environment, topic: sns.Topic, state_machine_arn: str
    ) -> None:
        super().__init__(scope, construct_id)
        self._name, self._topic = environment.name, topic
        field = events.EventField.from_path
        show = f"First command: trainyard status {environment.name} --on aws"
        stack = f"{field('$.detail.stack-id')} is {field('$.detail.status-details.status')}"
        # One message for each deployment that changes the cluster.
        self._rule(
            "Finished",
            ("aws.cloudformation", "CloudFormation Stack Status Change"),
            {
                "stack-id": self._stacks(environment, "cluster"),
                "status-details": {"status": ["CREATE_COMPLETE", "UPDATE_COMPLETE", "DELETE_COMPLETE"]},
            },
            f"the cluster's stack: {stack}",
        )
        self._rule(
            "Failed",
            ("aws.cloudformation", "CloudFormation Stack Status Change"),
            {
                "stack-id": self._stacks(environment, *parts(environment)),
                "status-details": {"status": [{"suffix": "_FAILED"}, {"suffix": "ROLLBACK_COMPLETE"}]},
            },
            f"FAILED: {stack}: {field('$.detail.status-details.status-reason')}. {show}",
        )
        self._rule(
            "OperationFailed",
            ("aws.states", "Step Functions Execution Status Change"),
            {"stateMachineArn": [state_machine_arn], "status": ["FAILED", "TIMED_OUT", "ABORTED"]},
            f"FAILED: the cluster's operation {field('$.detail.executionArn')} is {field('$.detail.status')}. {show}",
        )
        self._rule(
            "HeadNodeAlarm",
            ("aws.cloudwatch", "CloudWatch Alarm State Change"),
            {"alarmName": [{"prefix": f"{environment.cluster_name}-HeadNode-"}], "state": {"value": ["ALARM"]}},
            f"ALARM: {field('$.detail.alarmName')}: {field('$.detail.state.reason')}. "
            f"First command: trainyard connect {environment.name}. Runbook: {runbook(environment, 'HeadNodeAlarm')}",
        )
        self._rule(
            "Health",
            ("aws.health", "AWS Health Event"),
            # Public events concern a whole region, and mostly services that the environment does not use.
            {"eventScopeCode": ["ACCOUNT_SPECIFIC"]},
            f"AWS Health, {field('$.detail.service')}, {field('$.detail.eventTypeCode')}: "
            f"{field('$.detail.eventDescription[0].latestDescription')} Resources: the account's AWS Health Dashboard",
        )

    def _stacks(self, environment: Environment, *parts: str) -> list[dict[str, str]]:
        # With the slash: the names of two environments may begin alike.
        prefix = Stack.of(self).format_arn(service="cloudformation", resource="stack", resource_name="")
        return [{"prefix": f"{prefix}{stack_name(environment, part)}/"} for part in parts]

    def _rule(self, construct_id: str, kind: tuple[str, str], detail: Mapping[str, object], text: str) -> None:
        """A rule with a one-line message: EventBridge sends text as a JSON string, which escapes newlines."""
        source, detail_type = kind
        rule = events.Rule(
            self,
            construct_id,
            event_pattern=events.EventPattern(source=[source], detail_type=[detail_type], detail=dict(detail)),
        )
        message = events.RuleTargetInput.from_text(f"Trainyard {self._name}: {text}")
        rule.add_target(targets.SnsTopic(self._topic, message=message))

"""The state machine of a cluster operation: begin, poll until the cluster is settled, answer CloudFormation.

docs/decisions/0001-custom-resource-state-machine.md describes its contract with the function that does the steps,
docs/decisions/0005-longer-than-an-hour.md what happens beyond CloudFormation's one hour.
"""

from __future__ import annotations

import json

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from trainyard.nag import acknowledge, wildcard_resource

State = dict[str, object]

POLL_SECONDS = 15
# The handler's own deadline, twelve hours at most, ends an operation earlier. This one ends only abandoned executions.
_TIMEOUT_SECONDS = 24 * 3600


class ClusterStateMachine(Construct):
    """One execution for each CloudFormation event.

    Args:
        work: the function that does the steps.

    Attributes:
        machine: the state machine.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        work: lambda_.IFunction,
        log_retention: logs.RetentionDays,
        log_removal: cdk.RemovalPolicy,
    ) -> None:
        super().__init__(scope, construct_id)
        log_group = logs.LogGroup(self, "Log", retention=log_retention, removal_policy=log_removal)
        self.machine = sfn.StateMachine(
            self,
            "Machine",
            # Plain Amazon States Language: the import of aws_stepfunctions_tasks alone takes a third of a second.
            definition_body=sfn.DefinitionBody.from_string(json.dumps(_definition(work), separators=(",", ":"))),
            tracing_enabled=True,
            # Execution data holds the cluster configuration and a pre-signed URL.
            logs=sfn.LogOptions(destination=log_group, level=sfn.LogLevel.ALL, include_execution_data=False),
        )
        work.grant_invoke(self.machine)
        acknowledge(
            self.machine,
            "AwsSolutions-IAM5[Resource::*]",
            "Log delivery and X-Ray know no resources: their actions can be granted on * only.",
        )
        acknowledge(
            self.machine,
            wildcard_resource(self.machine, work, work.function_arn, ":*"),
            "The versions and aliases of the one function that the state machine calls; it has none.",
        )


def _definition(work: lambda_.IFunction) -> State:
    to_answer: list[State] = [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Answer"}]

    def step(name: str, then: str, retry: State, catch: list[State] | None) -> State:
        return {
            "Next": then,
            "Retry": [retry],
            **({"Catch": catch} if catch else {}),
            "Type": "Task",
            "Resource": work.function_arn,
            "Parameters": {"step": name, "work.$": "$"},
        }

    return {
        "StartAt": "Receive",
        "States": {
            "Receive": {
                "Type": "Pass",
                "Parameters": {
                    "event.$": "$",
                    "started.$": "$$.Execution.StartTime",
                    "execution.$": "$$.Execution.Id",
                },
                "Next": "Begin",
            },
            "Begin": step("begin", "Settled?", _retry(seconds=2, attempts=3), to_answer),
            "Settled?": {
                "Type": "Choice",
                "Choices": [
                    {"Variable": "$.state", "StringEquals": "waiting", "Next": "Wait"},
                    {"Variable": "$.state", "StringEquals": "early", "Next": "Tell"},
                ],
                "Default": "Answer",
            },
            "Poll": step("poll", "Settled?", _retry(seconds=2, attempts=3), to_answer),
            "Wait": {"Type": "Wait", "Seconds": POLL_SECONDS, "Next": "Poll"},
            "Tell": step("tell", "Wait", _retry(seconds=5, attempts=6), to_answer),
            "Answer": step("answer", "Succeeded?", _retry(seconds=5, attempts=6), None),
            "Succeeded?": {
                "Type": "Choice",
                "Choices": [{"Variable": "$.status", "StringEquals": "SUCCESS", "Next": "Done"}],
                "Default": "Refused",
            },
            "Refused": {"Type": "Fail", "Error": "ClusterOperationFailed", "CausePath": "$.reason"},
            "Done": {"Type": "Succeed"},
        },
        "TimeoutSeconds": _TIMEOUT_SECONDS,
        "Comment": "One execution for each CloudFormation event of a cluster",
    }


def _retry(*, seconds: int, attempts: int) -> State:
    return {
        "ErrorEquals": ["States.ALL"],
        "IntervalSeconds": seconds,
        "MaxAttempts": attempts,
        "BackoffRate": 2,
        "MaxDelaySeconds": 60,
        "JitterStrategy": "FULL",
    }

"""The state machine of a cluster operation: begin, poll until the cluster is settled, answer CloudFormation.

docs/decisions/0001-custom-resource-state-machine.md describes its contract with the function that does the steps,
docs/decisions/0005-longer-than-an-hour.md what happens beyond CloudFormation's one hour.
"""

from __future__ import annotations

import json

from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from trainyard.nag import ANY_RESOURCE, acknowledge, wildcard
from trainyard.retention import FunctionLogs

State = dict[str, object]


class ClusterStateMachine(Construct):
    """One execution for each CloudFormation event; `work` is the function that does the steps."""

    machine: sfn.StateMachine

    def __init__(self, scope: Construct, construct_id: str, *, work: lambda_.IFunction, logs: FunctionLogs) -> None:
        super().__init__(scope, construct_id)
        self.machine = sfn.StateMachine(
            self,
            "Machine",
            # Plain Amazon States Language: the import of aws_stepfunctions_tasks alone takes a third of a second.
            definition_body=sfn.DefinitionBody.from_string(json.dumps(_definition(work), separators=(",", ":"))),
            tracing_enabled=True,
            # Execution data holds the cluster configuration and a pre-signed URL.
            logs=sfn.LogOptions(destination=logs.group(self), level=sfn.LogLevel.ALL, include_execution_data=False),
        )
        work.grant_invoke(self.machine)
        versions = wildcard(self.machine, work.function_arn, ":*")
        acknowledge(
            self.machine,
            {
                ANY_RESOURCE: "Log delivery and X-Ray take no ARN: their actions can be granted on * only.",
                versions: "The versions and aliases of the one function that the state machine calls; it has none.",
            },
        )


def _definition(work: lambda_.IFunction) -> State:
    def step(name: str, then: str, *, seconds: int, attempts: int, caught: bool = True) -> State:
        retry = {
            "ErrorEquals": ["States.ALL"],
            "IntervalSeconds": seconds,
            "MaxAttempts": attempts,
            "BackoffRate": 2,
            "MaxDelaySeconds": 60,
            "JitterStrategy": "FULL",
        }
        catch = {"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Answer"}
        return {
            "Next": then,
            "Retry": [retry],
            **({"Catch": [catch]} if caught else {}),
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
            "Begin": step("begin", "Settled?", seconds=2, attempts=3),
            "Settled?": {
                "Type": "Choice",
                "Choices": [
                    {"Variable": "$.state", "StringEquals": "waiting", "Next": "Wait"},
                    {"Variable": "$.state", "StringEquals": "early", "Next": "Early"},
                ],
                "Default": "Answer",
            },
            "Poll": step("poll", "Settled?", seconds=2, attempts=3),
            # A poll writes nine events to the history. Step Functions ends an execution at 25,000 events; the longest
            # operation, 12 hours, has 2,160 polls. Limits that the handler counts in polls depend on these seconds.
            "Wait": {"Type": "Wait", "Seconds": 20, "Next": "Poll"},
            "Early": step("early", "Wait", seconds=5, attempts=6),
            "Answer": step("answer", "Succeeded?", seconds=5, attempts=6, caught=False),
            "Succeeded?": {
                "Type": "Choice",
                "Choices": [{"Variable": "$.status", "StringEquals": "SUCCESS", "Next": "Done"}],
                "Default": "Refused",
            },
            "Refused": {"Type": "Fail", "Error": "ClusterOperationFailed", "CausePath": "$.reason"},
            "Done": {"Type": "Succeed"},
        },
        # The handler's own deadline, twelve hours at most, ends an operation earlier. This one ends only abandoned
        # executions.
        "TimeoutSeconds": 24 * 3600,
        "Comment": "One execution for each CloudFormation event of a cluster",
    }

"""The state machine of a cluster operation: begin, poll until it is settled, answer CloudFormation.

docs/decisions/0001-custom-resource-state-machine.md has its contract with the function behind the steps, and
docs/decisions/0005-longer-than-an-hour.md what it does beyond CloudFormation's hour.
"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as sfn
from aws_cdk import aws_stepfunctions_tasks as tasks
from constructs import Construct

from trainyard.nag import acknowledge
from trainyard.nag_wildcards import wildcard_resource

POLL_SECONDS = 15
# The handler's own deadline, twelve hours at most, ends the work before. This ends only what nobody waits for any more.
_TIMEOUT = cdk.Duration.hours(24)


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
        self._work = work
        log_group = logs.LogGroup(self, "Log", retention=log_retention, removal_policy=log_removal)
        self.machine = sfn.StateMachine(
            self,
            "Machine",
            comment="One execution for each CloudFormation event of a cluster",
            definition_body=sfn.DefinitionBody.from_chainable(self._definition()),
            timeout=_TIMEOUT,
            tracing_enabled=True,
            # Execution data holds the cluster configuration and a pre-signed URL.
            logs=sfn.LogOptions(destination=log_group, level=sfn.LogLevel.ALL, include_execution_data=False),
        )
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

    def _definition(self) -> sfn.IChainable:
        answer = self._step("Answer")
        _retry(answer, seconds=5, attempts=6)
        answer.next(
            sfn.Choice(self, "Succeeded?")
            .when(sfn.Condition.string_equals("$.status", "SUCCESS"), sfn.Succeed(self, "Done"))
            .otherwise(sfn.Fail(self, "Refused", error="ClusterOperationFailed", cause_path="$.reason"))
        )
        begin, poll, tell = self._step("Begin"), self._step("Poll"), self._step("Tell")
        for step in (begin, poll):
            _retry(step, seconds=2, attempts=3)
        _retry(tell, seconds=5, attempts=6)
        for step in (begin, poll, tell):
            step.add_catch(answer, errors=[sfn.Errors.ALL], result_path="$.error")
        wait = sfn.Wait(self, "Wait", time=sfn.WaitTime.duration(cdk.Duration.seconds(POLL_SECONDS)))
        settled = (
            sfn.Choice(self, "Settled?")
            .when(sfn.Condition.string_equals("$.state", "waiting"), wait)
            .when(sfn.Condition.string_equals("$.state", "early"), tell)
            .otherwise(answer)
        )
        tell.next(wait)
        wait.next(poll).next(settled)
        receive = sfn.Pass(
            self,
            "Receive",
            parameters={
                "event": sfn.JsonPath.entire_payload,
                "started": sfn.JsonPath.string_at("$$.Execution.StartTime"),
                "execution": sfn.JsonPath.string_at("$$.Execution.Id"),
            },
        )
        return receive.next(begin).next(settled)

    def _step(self, name: str) -> tasks.LambdaInvoke:
        return tasks.LambdaInvoke(
            self,
            name,
            lambda_function=self._work,
            payload=sfn.TaskInput.from_object({"step": name.lower(), "work": sfn.JsonPath.entire_payload}),
            payload_response_only=True,
            retry_on_service_exceptions=False,
        )


def _retry(step: tasks.LambdaInvoke, *, seconds: int, attempts: int) -> None:
    step.add_retry(
        errors=[sfn.Errors.ALL],
        interval=cdk.Duration.seconds(seconds),
        max_attempts=attempts,
        backoff_rate=2,
        max_delay=cdk.Duration.seconds(60),
        jitter_strategy=sfn.JitterType.FULL,
    )

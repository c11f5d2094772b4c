"""What stands behind `Custom::ParallelCluster`: two functions and a state machine.

docs/decisions/0001-custom-resource-state-machine.md says how they work together; the functions' code is the package
`cluster_resource` under lambda/.
"""

from __future__ import annotations

from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as sfn
from aws_cdk import aws_stepfunctions_tasks as tasks
from constructs import Construct

from trainyard.nag import acknowledge
from trainyard.nag_wildcards import wildcard_resource
from trainyard.python_function import PythonFunction

ENTRY = Path(__file__).parents[2] / "lambda" / "cluster_resource"
POLL_SECONDS = 15
# CloudFormation waits an hour for an answer, and the handler's own deadline ends the work before. This ends only what
# nobody waits for any more.
_STATE_MACHINE_TIMEOUT = cdk.Duration.hours(24)


class ClusterProvider(Construct):
    """Creates, updates and deletes clusters through the ParallelCluster API and answers CloudFormation.

    Args:
        api_user_role_arn: the role that may call the API; the only thing that `work` may do is to assume it.
        log_retention: of the functions' and the state machine's logs.
        log_removal: what becomes of those logs with the stack.

    Attributes:
        service_token: ARN of the function that CloudFormation calls.
    """

    service_token: str

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        api_user_role_arn: str,
        log_retention: logs.RetentionDays,
        log_removal: cdk.RemovalPolicy,
    ) -> None:
        super().__init__(scope, construct_id)
        self._log_retention, self._log_removal = log_retention, log_removal
        self.work = self._function("Work", "work", "Does the steps of a cluster operation", cdk.Duration.minutes(5))
        self.work.role.add_to_policy(iam.PolicyStatement(actions=["sts:AssumeRole"], resources=[api_user_role_arn]))
        self.state_machine = self._state_machine()
        self.on_event = self._function(
            "OnEvent", "on_event", "Starts a cluster operation for a CloudFormation event", cdk.Duration.minutes(1)
        )
        self.on_event.function.add_environment("STATE_MACHINE_ARN", self.state_machine.state_machine_arn)
        self.state_machine.grant_start_execution(self.on_event.role)
        self.service_token = self.on_event.function.function_arn

    def _function(self, construct_id: str, module: str, description: str, timeout: cdk.Duration) -> PythonFunction:
        return PythonFunction(
            self,
            construct_id,
            entry=ENTRY,
            module=f"cluster_resource/{module}.py",
            description=description,
            timeout=timeout,
            log_retention=self._log_retention,
            log_removal=self._log_removal,
        )

    def _state_machine(self) -> sfn.StateMachine:
        log_group = logs.LogGroup(
            self, "StateMachineLog", retention=self._log_retention, removal_policy=self._log_removal
        )
        machine = sfn.StateMachine(
            self,
            "StateMachine",
            comment="One execution for each CloudFormation event of a cluster",
            definition_body=sfn.DefinitionBody.from_chainable(self._definition()),
            timeout=_STATE_MACHINE_TIMEOUT,
            tracing_enabled=True,
            # Execution data holds the cluster configuration and a pre-signed URL.
            logs=sfn.LogOptions(destination=log_group, level=sfn.LogLevel.ALL, include_execution_data=False),
        )
        acknowledge(
            machine,
            "AwsSolutions-IAM5[Resource::*]",
            "Log delivery and X-Ray know no resources: their actions can be granted on * only.",
        )
        function = self.work.function
        acknowledge(
            machine,
            wildcard_resource(machine, function, function.function_arn, ":*"),
            "The versions and aliases of the one function that the state machine calls; it has none.",
        )
        return machine

    def _definition(self) -> sfn.IChainable:
        done = sfn.Succeed(self, "Done")
        refused = sfn.Fail(
            self,
            "Refused",
            error="ClusterOperationFailed",
            cause="CloudFormation was answered FAILED; the reason is in the stack's events.",
        )
        answer = self._step("Answer")
        answer.add_retry(
            errors=[sfn.Errors.ALL],
            interval=cdk.Duration.seconds(5),
            max_attempts=6,
            backoff_rate=2,
            max_delay=cdk.Duration.seconds(60),
            jitter_strategy=sfn.JitterType.FULL,
        )
        answer.next(
            sfn.Choice(self, "Succeeded?")
            .when(sfn.Condition.string_equals("$.status", "SUCCESS"), done)
            .otherwise(refused)
        )
        begin, poll = self._step("Begin"), self._step("Poll")
        for step in (begin, poll):
            step.add_retry(
                errors=[sfn.Errors.ALL],
                interval=cdk.Duration.seconds(2),
                max_attempts=3,
                backoff_rate=2,
                jitter_strategy=sfn.JitterType.FULL,
            )
            step.add_catch(answer, errors=[sfn.Errors.ALL], result_path="$.error")
        wait = sfn.Wait(self, "Wait", time=sfn.WaitTime.duration(cdk.Duration.seconds(POLL_SECONDS)))
        settled = (
            sfn.Choice(self, "Settled?").when(sfn.Condition.string_equals("$.state", "waiting"), wait).otherwise(answer)
        )
        wait.next(poll).next(settled)
        receive = sfn.Pass(
            self,
            "Receive",
            parameters={
                "event": sfn.JsonPath.entire_payload,
                "started": sfn.JsonPath.string_at("$$.Execution.StartTime"),
            },
        )
        return receive.next(begin).next(settled)

    def _step(self, name: str) -> tasks.LambdaInvoke:
        return tasks.LambdaInvoke(
            self,
            name,
            lambda_function=self.work.function,
            payload=sfn.TaskInput.from_object({"step": name.lower(), "work": sfn.JsonPath.entire_payload}),
            payload_response_only=True,
            retry_on_service_exceptions=False,
        )

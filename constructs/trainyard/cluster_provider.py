"""The implementation of `Custom::ParallelCluster`: two functions and a state machine.

docs/decisions/0001-custom-resource-state-machine.md describes how they work together. The functions' code is the
package `cluster_resource` under lambda/.
"""

from __future__ import annotations

from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from trainyard.cluster_state_machine import ClusterStateMachine
from trainyard.head_node_documents import JobCount
from trainyard.nag import acknowledge_resource
from trainyard.python_function import PythonFunction

ENTRY = Path(__file__).parents[2] / "lambda" / "cluster_resource"
# CloudFormation times out for an event that Lambda could not deliver by then; it must not be handled afterwards.
_MOST_EVENT_AGE = cdk.Duration.minutes(5)


class ClusterProvider(Construct):
    """Creates, updates and deletes clusters through the ParallelCluster API and answers CloudFormation.

    Args:
        cluster_name: the functions may read the events of this cluster's stacks, and its number of running jobs.
        cluster_stack_name: the stack that holds the custom resource; the functions may read its status.
        api_user_role_arn: the role that may call the API.
        log_retention: of the functions' and the state machine's logs.
        log_removal: whether those logs are deleted with the stack.

    Attributes:
        service_token: ARN of the function that CloudFormation calls.
    """

    service_token: str

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster_name: str,
        cluster_stack_name: str,
        api_user_role_arn: str,
        log_retention: logs.RetentionDays,
        log_removal: cdk.RemovalPolicy,
    ) -> None:
        super().__init__(scope, construct_id)
        self._log_retention, self._log_removal = log_retention, log_removal
        self.work = self._function("Work", "work", "Does the steps of a cluster operation", cdk.Duration.minutes(5))
        self.work.role.add_to_policy(iam.PolicyStatement(actions=["sts:AssumeRole"], resources=[api_user_role_arn]))
        jobs = JobCount(self, "JobCount", cluster_name=cluster_name)
        jobs.grant_send(self.work.role)
        self.work.function.add_environment("JOBS_DOCUMENT", jobs.document_name)
        self.state_machine = ClusterStateMachine(
            self,
            "StateMachine",
            work=self.work.function,
            log_retention=log_retention,
            log_removal=log_removal,
        ).machine
        self._grant_reads(cluster_name, cluster_stack_name)
        self.on_event = self._function(
            "OnEvent", "on_event", "Starts a cluster operation for a CloudFormation event", cdk.Duration.minutes(1)
        )
        self.on_event.function.add_environment("STATE_MACHINE_ARN", self.state_machine.state_machine_arn)
        self.on_event.function.configure_async_invoke(max_event_age=_MOST_EVENT_AGE, retry_attempts=2)
        self._grant_executions()
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

    def _grant_reads(self, cluster_name: str, cluster_stack_name: str) -> None:
        # Not in the role's default policy: the function depends on that, and the state machine on the function.
        executions = self._executions()
        own, nested = self._stack(f"{cluster_stack_name}/*"), self._stack(f"{cluster_name}-*/*")
        policy = iam.Policy(
            self,
            "Look",
            roles=[self.work.role],
            statements=[
                iam.PolicyStatement(actions=["states:DescribeExecution"], resources=[executions]),
                iam.PolicyStatement(actions=["cloudformation:DescribeStacks"], resources=[own]),
                iam.PolicyStatement(actions=["cloudformation:DescribeStackEvents"], resources=[nested]),
            ],
        )
        acknowledge_resource(policy, executions, "Executions of the one state machine; their names come with events.")
        acknowledge_resource(policy, own, "A stack's ARN ends in an id that is made with the stack.")
        acknowledge_resource(policy, nested, "The nested stacks of the one cluster, which ParallelCluster names.")

    def _grant_executions(self) -> None:
        role = self.on_event.role
        self.state_machine.grant_start_execution(role)
        self.state_machine.grant(role, "states:ListExecutions")
        executions = self._executions()
        role.add_to_policy(iam.PolicyStatement(actions=["states:StopExecution"], resources=[executions]))
        acknowledge_resource(role, executions, "Executions of the one state machine; their names come with events.")

    def _executions(self) -> str:
        return cdk.Stack.of(self).format_arn(
            service="states",
            resource="execution",
            resource_name=f"{self.state_machine.state_machine_name}:*",
            arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
        )

    def _stack(self, pattern: str) -> str:
        return cdk.Stack.of(self).format_arn(service="cloudformation", resource="stack", resource_name=pattern)

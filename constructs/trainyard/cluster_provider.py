"""The implementation of `Custom::ParallelCluster`: two functions and a state machine.

docs/decisions/0001-custom-resource-state-machine.md describes how they work together. The functions' code is the
package `cluster_resource` under lambda/.
"""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from trainyard.cluster_state_machine import ClusterStateMachine
from trainyard.head_node_documents import JobCount
from trainyard.nag import acknowledge, wildcard
from trainyard.python_function import PythonFunction
from trainyard.retention import FunctionLogs

_EXECUTIONS = "Executions of the one state machine; their names come with events."


class ClusterProvider(Construct):
    """Creates, updates and deletes clusters through the ParallelCluster API and answers CloudFormation.

    Args:
        cluster_names: the functions may read the events of these clusters' stacks.
        cluster_stack_name: the custom resource's stack; functions may read its status and count its clusters' jobs.
        api_user_role_arn: the role that may call the API.
        logs: of the functions and the state machine.

    Attributes:
        service_token: ARN of the function that CloudFormation calls.
        state_machine_arn: of the state machine, one execution for each event.
    """

    service_token: str
    state_machine_arn: str

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster_names: Sequence[str],
        cluster_stack_name: str,
        api_user_role_arn: str,
        logs: FunctionLogs,
    ) -> None:
        super().__init__(scope, construct_id)
        work = PythonFunction(
            self,
            "Work",
            module="cluster_resource/handler.py",
            description="Does the steps of a cluster operation",
            timeout=cdk.Duration.minutes(5),
            logs=logs,
        )
        work.role.add_to_policy(iam.PolicyStatement(actions=["sts:AssumeRole"], resources=[api_user_role_arn]))
        jobs = JobCount(self, "JobCount", cluster_stack_name=cluster_stack_name)
        jobs.grant_send(work.role)
        work.function.add_environment("JOBS_DOCUMENT", jobs.document_name)
        machine = ClusterStateMachine(self, "StateMachine", work=work.function, logs=logs).machine
        stack = cdk.Stack.of(self)
        executions = stack.format_arn(
            service="states",
            resource="execution",
            resource_name=f"{machine.state_machine_name}:*",
            arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
        )
        own, *nested = (
            stack.format_arn(service="cloudformation", resource="stack", resource_name=pattern)
            for pattern in (f"{cluster_stack_name}/*", *(f"{name}-*/*" for name in cluster_names))
        )
        # Not in the role's default policy: the function depends on that, and the state machine on the function.
        reads = iam.Policy(
            self,
            "Look",
            roles=[work.role],
            statements=[
                iam.PolicyStatement(actions=["states:DescribeExecution"], resources=[executions]),
                iam.PolicyStatement(actions=["cloudformation:DescribeStacks"], resources=[own]),
                iam.PolicyStatement(actions=["cloudformation:DescribeStackEvents"], resources=nested),
            ],
        )
        reasons = {
            executions: _EXECUTIONS,
            own: "A stack's ARN ends in an id that is made with the stack.",
            **dict.fromkeys(nested, "The nested stacks of the one cluster, which ParallelCluster names."),
        }
        acknowledge(reads, {wildcard(self, arn): reason for arn, reason in reasons.items()})

        on_event = PythonFunction(
            self,
            "OnEvent",
            module="cluster_resource/on_event.py",
            description="Starts a cluster operation for a CloudFormation event",
            timeout=cdk.Duration.minutes(1),
            logs=logs,
        )
        on_event.function.add_environment("STATE_MACHINE_ARN", machine.state_machine_arn)
        # CloudFormation times out for an event that Lambda could not deliver by then, which must not be handled later.
        on_event.function.configure_async_invoke(max_event_age=cdk.Duration.minutes(5), retry_attempts=2)
        machine.grant_start_execution(on_event.role)
        machine.grant(on_event.role, "states:ListExecutions")
        on_event.role.add_to_policy(iam.PolicyStatement(actions=["states:StopExecution"], resources=[executions]))
        acknowledge(on_event.role, {wildcard(self, executions): _EXECUTIONS})
        self.service_token = on_event.function.function_arn
        self.state_machine_arn = machine.state_machine_arn

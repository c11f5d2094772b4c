"""The function that approves harmless changes, and asks a person to decide on the others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from constructs import Construct

from trainyard.nag import acknowledge
from trainyard.python_function import PythonFunction
from trainyard.retention import retention_days

_HANDLERS = Path(__file__).resolve().parents[3] / "lambda" / "pipeline_approval"


class Approver(Construct):
    """The function of lambda/pipeline_approval, which may answer the approvals given to `grant_answer`.

    Attributes:
        function: handles jobs of CodePipeline.
    """

    function: lambda_.IFunction

    def __init__(
        self, scope: Construct, construct_id: str, *, pipeline_name: str, topic: sns.ITopic, log_days: int
    ) -> None:
        super().__init__(scope, construct_id)
        self._pipeline_name = pipeline_name
        function = PythonFunction(
            self,
            "Function",
            entry=_HANDLERS,
            module="pipeline_approval/handler.py",
            description="Answers approvals of a pipeline where the verdict needs no person",
            timeout=Duration.minutes(2),
            environment={"PIPELINE": pipeline_name, "TOPIC_ARN": topic.topic_arn},
            log_retention=retention_days(log_days),
            log_removal=RemovalPolicy.DESTROY,
        )
        self.function = function.function
        # CodePipeline invokes asynchronously, and Lambda would retry twice, even after the job has ended.
        function.function.configure_async_invoke(retry_attempts=0)
        self._role = function.role
        topic.grant_publish(function.role)
        acknowledge(
            function.role, "AwsSolutions-IAM5[Action::kms:GenerateDataKey*]", "CDK's own grant on the topic's key."
        )
        acknowledge(
            function.role,
            "AwsSolutions-IAM5[Resource::*]",
            "Results of CodePipeline's jobs: the actions know no resources.",
        )
        function.role.add_to_policy(
            iam.PolicyStatement(
                sid="Look", actions=["codepipeline:GetPipelineState"], resources=[self._arn(pipeline_name)]
            )
        )

    def grant_answer(self, stage: str, action: str) -> None:
        """Let the function answer this one approval."""
        self._role.add_to_policy(
            iam.PolicyStatement(
                actions=["codepipeline:PutApprovalResult"],
                resources=[self._arn(f"{self._pipeline_name}/{stage}/{action}")],
            )
        )

    def parameters(
        self, *, stage: str, action: str, value: str, passes: str, message: str, link: str
    ) -> Mapping[str, str]:
        """The job's parameters: approve `action` of `stage` if `value` is in the comma-separated list `passes`."""
        return {
            "execution": "#{codepipeline.PipelineExecutionId}",
            "stage": stage,
            "action": action,
            "value": value,
            "passes": passes,
            "message": message,
            "link": link,
        }

    def _arn(self, resource: str) -> str:
        return Stack.of(self).format_arn(service="codepipeline", resource=resource)

"""A manual approval that the verdict can make unnecessary, and the function that answers it then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import jsii
from aws_cdk import Duration, Stack, pipelines
from aws_cdk import aws_codepipeline as codepipeline
from aws_cdk import aws_codepipeline_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from constructs import Construct

from trainyard.nag import ANY_RESOURCE, acknowledge
from trainyard.python_function import PythonFunction
from trainyard.retention import FunctionLogs


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
        made = PythonFunction(
            self,
            "Function",
            module="pipeline_approval/handler.py",
            description="Answers approvals of a pipeline where the verdict needs no person",
            timeout=Duration.minutes(2),
            environment={"PIPELINE": pipeline_name, "TOPIC_ARN": topic.topic_arn},
            logs=FunctionLogs(log_days, kept=False),
        )
        self.function, self._role = made.function, made.role
        # CodePipeline invokes asynchronously, and Lambda would retry twice, even after the job has ended.
        made.function.configure_async_invoke(retry_attempts=0)
        topic.grant_publish(self._role)
        acknowledge(
            self._role,
            {
                "AwsSolutions-IAM5[Action::kms:GenerateDataKey*]": "CDK's own grant on the topic's key.",
                ANY_RESOURCE: "Results of CodePipeline's jobs: the actions take no ARN.",
            },
        )
        pipeline = [self._arn(pipeline_name)]
        self._role.add_to_policy(
            iam.PolicyStatement(sid="Look", actions=["codepipeline:GetPipelineState"], resources=pipeline)
        )

    def grant_answer(self, stage: str, action: str) -> None:
        """Let the function answer this one approval."""
        approval = [self._arn(f"{self._pipeline_name}/{stage}/{action}")]
        self._role.add_to_policy(iam.PolicyStatement(actions=["codepipeline:PutApprovalResult"], resources=approval))

    def _arn(self, resource: str) -> str:
        return Stack.of(self).format_arn(service="codepipeline", resource=resource)


@jsii.implements(pipelines.ICodePipelineActionFactory)
class Gate(pipelines.Step):
    """A manual approval, together with the function that approves it if the verdict is harmless.

    Both start at the same time. If the function fails, is slow, or gets an unknown value, the approval stays open:
    nothing passes without an answer (docs/decisions/0006-approvals-by-verdict.md).

    Args:
        step_id: name of the approval's action.
        value: a pipeline variable that holds the verdict.
        passes: values that need no person.
        message: shown to the approver; may contain pipeline variables.
        link: URL of the report.
        after: steps that run before.
    """

    def __init__(
        self,
        step_id: str,
        *,
        approver: Approver,
        value: str,
        passes: Sequence[str],
        message: str,
        link: str,
        after: Sequence[pipelines.Step],
    ) -> None:
        super().__init__(step_id)
        self._approver = approver
        self._verdict = {"value": value, "passes": ",".join(passes), "message": message, "link": link}
        # Registers the producers of the variables; without it CDK Pipelines gives those steps no namespace.
        self._discover_referenced_outputs(self._verdict)
        for step in after:
            self.add_step_dependency(step)

    def produce_action(
        self,
        stage: codepipeline.IStage,
        *,
        action_name: str,
        artifacts: pipelines.ArtifactMap,  # noqa: ARG002 - jsii passes only what the signature names
        pipeline: pipelines.CodePipeline,  # noqa: ARG002
        run_order: float,
        scope: Any,  # noqa: ANN401, ARG002
        stack_outputs_map: Any,  # noqa: ANN401, ARG002
        before_self_mutation: bool | None = None,  # noqa: ARG002
        code_build_defaults: Any = None,  # noqa: ANN401, ARG002
        fallback_artifact: codepipeline.Artifact | None = None,  # noqa: ARG002
        variables_namespace: str | None = None,  # noqa: ARG002
    ) -> pipelines.CodePipelineActionFactoryResult:
        """Add the approval and the function's action to `stage`; CDK Pipelines calls this."""
        approval = actions.ManualApprovalAction(
            action_name=action_name,
            run_order=run_order,
            additional_information=self._verdict["message"],
            external_entity_link=self._verdict["link"],
        )
        stage.add_action(cast(codepipeline.IAction, approval))
        self._approver.grant_answer(stage.stage_name, action_name)
        answer = actions.LambdaInvokeAction(
            action_name=f"{action_name}-ByVerdict",
            run_order=run_order,
            lambda_=self._approver.function,
            user_parameters={
                "execution": "#{codepipeline.PipelineExecutionId}",
                "stage": stage.stage_name,
                "action": action_name,
                **self._verdict,
            },
        )
        stage.add_action(cast(codepipeline.IAction, answer))
        return pipelines.CodePipelineActionFactoryResult(run_orders_consumed=1)

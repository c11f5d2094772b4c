"""A manual approval that the verdict can make unnecessary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import jsii
from aws_cdk import aws_codepipeline as codepipeline
from aws_cdk import aws_codepipeline_actions as actions
from aws_cdk import pipelines

from trainyard.pipeline.approver import Approver


@jsii.implements(pipelines.ICodePipelineActionFactory)
class Gate(pipelines.Step):
    """A manual approval, together with the function that approves it if the verdict is harmless.

    Both start at the same time. If the function fails, is slow, or gets an unknown value, the approval stays open:
    nothing passes without an answer (docs/decisions/0006-approvals-by-verdict.md).
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
        """
        Args:
            step_id: name of the approval's action.
            approver: the function.
            value: a pipeline variable that holds the verdict.
            passes: values that need no person.
            message: shown to the approver; may contain pipeline variables.
            link: URL of the report.
            after: steps that run before.
        """
        super().__init__(step_id)
        self._approver, self._value, self._passes = approver, value, passes
        self._message, self._link = message, link
        # Registers the producers of the variables; without it CDK Pipelines gives those steps no namespace.
        self._discover_referenced_outputs({"value": value, "message": message, "link": link})
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
        stage.add_action(
            cast(
                codepipeline.IAction,
                actions.ManualApprovalAction(
                    action_name=action_name,
                    run_order=run_order,
                    additional_information=self._message,
                    external_entity_link=self._link,
                ),
            )
        )
        self._approver.grant_answer(stage.stage_name, action_name)
        stage.add_action(
            cast(
                codepipeline.IAction,
                actions.LambdaInvokeAction(
                    action_name=f"{action_name}-ByVerdict",
                    run_order=run_order,
                    lambda_=self._approver.function,
                    user_parameters=dict(
                        self._approver.parameters(
                            stage=stage.stage_name,
                            action=action_name,
                            value=self._value,
                            passes=",".join(self._passes),
                            message=self._message,
                            link=self._link,
                        )
                    ),
                ),
            )
        )
        return pipelines.CodePipelineActionFactoryResult(run_orders_consumed=1)

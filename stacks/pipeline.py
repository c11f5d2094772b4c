"""The pipeline stack, and its stages."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_codepipeline as codepipeline
from aws_cdk import pipelines
from constructs import Construct

from settings.pipeline import Promotion, Target
from settings.pipeline.model import Source
from stacks.deployment import compose
from stacks.promotion import PromotionStack
from trainyard.pipeline import steps
from trainyard.pipeline.artifacts import Artifacts
from trainyard.pipeline.created_by_cdk import acknowledge_roles_of_cdk, grant_use, secure_replication
from trainyard.pipeline.gate import Approver, Gate
from trainyard.pipeline.names import PURPOSES, step_role, target_role_arn
from trainyard.pipeline.notices import Notices
from trainyard.pipeline.step_roles import StepRole
from trainyard.retention import FunctionLogs


def compose_promotion(app: cdk.App, promotion: Promotion, *, context: str) -> None:
    """Build the stages of `promotion`, and their pipeline if the file has a source.

    Args:
        context: the pipeline's file, as `-c pipeline=` takes it.
    """
    stages = {}
    for target in promotion.targets:
        # The stacks of an environment as in an app, and the roles of the pipeline's steps.
        stage = stages[target.environment.name] = cdk.Stage(app, target.environment.name)
        compose(stage, target.environment)
        PromotionStack(stage, pipeline=promotion.pipeline, environment=target.environment)
    if promotion.pipeline.source is not None:
        PipelineStack(app, promotion=promotion, source=promotion.pipeline.source, stages=stages, context=context)


class PipelineStack(cdk.Stack):
    """Source, synthesis, self-mutation, then each environment between its gates."""

    def __init__(
        self,
        scope: Construct,
        *,
        promotion: Promotion,
        source: Source,
        stages: Mapping[str, cdk.Stage],
        context: str,
    ) -> None:
        settings = promotion.pipeline
        super().__init__(
            scope,
            "pipeline",
            env=cdk.Environment(account=settings.account, region=settings.region),
            stack_name=settings.name,
            description=f"Trainyard pipeline {settings.name}: {' -> '.join(stages)}",
            termination_protection=True,
        )
        self.add_stack_tag("trainyard:pipeline", settings.name)
        artifacts = Artifacts(self, "Artifacts", days=settings.artifact_days)
        log_group = FunctionLogs(settings.log_days, kept=True).group(self)
        self._step_role = functools.partial(
            StepRole, artifacts=artifacts, log_group=log_group, connection=source.connection
        )
        self._notices = Notices(self, "Notices", emails=settings.notifications.emails, key=artifacts.key)
        self._source = pipelines.CodePipelineSource.connection(
            source.repository,
            source.branch,
            connection_arn=source.connection,
            # Every step clones the commit: lint and review need git.
            code_build_clone_output=True,
            action_name="Source",
        )
        description = f"Tests and synthesis of the pipeline {settings.name}"
        synth_role = self._step_role(self, "Synth", description=description, step="Synth")
        self._synth = steps.synth(self._source, synth_role.role, context=context)
        pipeline = pipelines.CodePipeline(
            self,
            "Pipeline",
            pipeline_name=settings.name,
            pipeline_type=codepipeline.PipelineType.V2,
            synth=self._synth,
            self_mutation=True,
            cross_account_keys=True,
            artifact_bucket=artifacts.bucket,
            docker_enabled_for_synth=False,
            docker_enabled_for_self_mutation=False,
            publish_assets_in_parallel=False,
            cli_version=steps.CDK_CLI,
            cdk_assets_cli_version=steps.CDK_ASSETS,
            code_build_defaults=steps.defaults(log_group),
            asset_publishing_code_build_defaults=steps.asset_publishing(),
        )
        self._approver = Approver(
            self, "Approver", pipeline_name=settings.name, topic=self._notices.topic, log_days=settings.log_days
        )
        for target in promotion.targets:
            before, after = self._steps(promotion, target)
            pipeline.add_stage(stages[target.environment.name], pre=before, post=[after])
        pipeline.build_pipeline()
        self._notices.notify_on(pipeline.pipeline)
        grant_use(pipeline, source.connection)
        acknowledge_roles_of_cdk(pipeline, artifacts, self._approver.function)
        secure_replication(pipeline)

    def _steps(self, promotion: Promotion, target: Target) -> tuple[list[pipelines.Step], pipelines.Step]:
        """The steps before the deployment of an environment, and the one after it."""
        environment = target.environment
        # Each environment has its own roles: a step of dev cannot reach prod.
        scope = Construct(self, f"Steps-{environment.name}")
        roles = {
            purpose: self._step_role(
                scope,
                purpose.capitalize(),
                description=f"Steps of the pipeline {promotion.pipeline.name} for the {purpose} of {environment.name}",
                step=purpose.capitalize(),
                name=step_role(promotion.pipeline, environment, purpose),
                target=target_role_arn(environment, purpose),
            ).role
            for purpose in PURPOSES
        }
        preflight = steps.preflight(self._source, target, roles["preflight"])
        diff = steps.diff(self._source, self._synth, target, roles["diff"])
        headline, link = diff.exported_variable("HEADLINE"), diff.exported_variable("REPORT_URL")
        before: list[pipelines.Step] = [preflight, diff]
        for name, variable, passes, message in (
            ("Disruption", "LEVEL", steps.SAFE, headline),
            ("Permissions", "PERMISSIONS", ("same",), f"permissions are broadened. {headline}"),
        ):
            gate = Gate(
                f"Approve-{name}",
                approver=self._approver,
                value=diff.exported_variable(variable),
                passes=passes,
                message=f"{environment.name}: {message}",
                link=link,
                after=(preflight, diff),
            )
            before.append(gate)
        if target.approval == "always":
            approval = pipelines.ManualApprovalStep(
                "Approve",
                comment=f"{environment.name}: {headline}",
                review_url=link,
                notification_topic=self._notices.topic,
            )
            for step in before:
                approval.add_step_dependency(step)
            before.append(approval)
        return before, steps.validation(self._source, target, roles["validation"])

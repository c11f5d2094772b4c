"""The pipeline stack, and its stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_codepipeline as codepipeline
from aws_cdk import aws_logs as logs
from aws_cdk import pipelines
from constructs import Construct

from settings.pipeline import Promotion, Target
from stacks.deployment import compose
from stacks.promotion import PromotionStack
from trainyard.pipeline import steps
from trainyard.pipeline.approver import Approver
from trainyard.pipeline.artifacts import Artifacts
from trainyard.pipeline.gate import Gate
from trainyard.pipeline.generated import acknowledge_generated, secure_replication, source_may_use
from trainyard.pipeline.notices import Notices
from trainyard.pipeline.step_roles import EnvironmentRoles, StepRole
from trainyard.retention import retention_days


def compose_promotion(app: cdk.App, promotion: Promotion, *, context: str) -> PipelineStack | None:
    """Build the stages of `promotion`, and their pipeline if the file has a source.

    Args:
        context: the pipeline's file, as `-c pipeline=` takes it.
    """
    stages = {target.environment.name: _stage(app, promotion, target) for target in promotion.targets}
    if promotion.pipeline.source is None:
        return None
    return PipelineStack(app, "pipeline", promotion=promotion, stages=stages, context=context)


def _stage(app: cdk.App, promotion: Promotion, target: Target) -> cdk.Stage:
    """The stacks of an environment as in an app, and the roles of the pipeline's steps."""
    stage = cdk.Stage(app, target.environment.name)
    compose(stage, target.environment)
    PromotionStack(stage, pipeline=promotion.pipeline, environment=target.environment)
    return stage


@dataclass(frozen=True)
class _Shared:
    source: pipelines.CodePipelineSource
    connection: str
    synth: pipelines.CodeBuildStep
    artifacts: Artifacts
    log_group: logs.LogGroup
    approver: Approver
    notices: Notices


class PipelineStack(cdk.Stack):
    """Source, synthesis, self-mutation, then each environment between its gates."""

    pipeline: pipelines.CodePipeline

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        promotion: Promotion,
        stages: Mapping[str, cdk.Stage],
        context: str,
    ) -> None:
        settings = promotion.pipeline
        if settings.source is None:
            raise ValueError(f"The pipeline {settings.name} has no source. Add one, or use its GitHub workflow.")
        super().__init__(
            scope,
            construct_id,
            env=cdk.Environment(account=settings.account, region=settings.region),
            stack_name=settings.name,
            description=f"Trainyard pipeline {settings.name}: {' -> '.join(stages)}",
            termination_protection=True,
        )
        self.add_stack_tag("trainyard:pipeline", settings.name)
        artifacts = Artifacts(self, "Artifacts", days=settings.artifact_days)
        log_group = logs.LogGroup(
            self, "Log", retention=retention_days(settings.log_days), removal_policy=cdk.RemovalPolicy.RETAIN
        )
        notices = Notices(self, "Notices", emails=settings.notifications.emails, key=artifacts.key)
        source = pipelines.CodePipelineSource.connection(
            settings.source.repository,
            settings.source.branch,
            connection_arn=settings.source.connection,
            # Every step clones the commit: lint and review need git.
            code_build_clone_output=True,
            action_name="Source",
        )
        synth_role = StepRole(
            self,
            "Synth",
            description=f"Tests and synthesis of the pipeline {settings.name}",
            step="Synth",
            artifacts=artifacts,
            log_group=log_group,
            connection=settings.source.connection,
        )
        synth = steps.synth(source, synth_role.role, context=context)
        self.pipeline = pipelines.CodePipeline(
            self,
            "Pipeline",
            pipeline_name=settings.name,
            pipeline_type=codepipeline.PipelineType.V2,
            synth=synth,
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
        approver = Approver(
            self, "Approver", pipeline_name=settings.name, topic=notices.topic, log_days=settings.log_days
        )
        shared = _Shared(source, settings.source.connection, synth, artifacts, log_group, approver, notices)
        for target in promotion.targets:
            self._add(promotion, target, stages[target.environment.name], shared)
        self.pipeline.build_pipeline()
        notices.notify_on(self.pipeline.pipeline)
        source_may_use(self.pipeline, settings.source.connection)
        acknowledge_generated(self.pipeline, artifacts, approver.function)
        secure_replication(self.pipeline)

    def _add(self, promotion: Promotion, target: Target, stage: cdk.Stage, shared: _Shared) -> None:
        environment, reference = target.environment, target.reference
        roles = EnvironmentRoles(
            self,
            f"Steps-{environment.name}",
            pipeline=promotion.pipeline,
            environment=environment,
            artifacts=shared.artifacts,
            log_group=shared.log_group,
            connection=shared.connection,
        ).roles
        preflight = steps.preflight(shared.source, environment, reference, roles["preflight"])
        diff = steps.diff(shared.source, shared.synth, environment, reference, roles["diff"])
        before: list[pipelines.Step] = [preflight, diff]
        headline, link = diff.exported_variable("HEADLINE"), diff.exported_variable("REPORT_URL")
        before += [
            Gate(
                "Approve-Disruption",
                approver=shared.approver,
                value=diff.exported_variable("LEVEL"),
                passes=steps.SAFE,
                message=f"{environment.name}: {headline}",
                link=link,
                after=(preflight, diff),
            ),
            Gate(
                "Approve-Permissions",
                approver=shared.approver,
                value=diff.exported_variable("PERMISSIONS"),
                passes=("same",),
                message=f"{environment.name}: permissions are broadened. {headline}",
                link=link,
                after=(preflight, diff),
            ),
        ]
        if target.approval == "always":
            approval = pipelines.ManualApprovalStep(
                "Approve",
                comment=f"{environment.name}: {headline}",
                review_url=link,
                notification_topic=shared.notices.topic,
            )
            for step in list(before):
                approval.add_step_dependency(step)
            before.append(approval)
        validation = steps.validation(shared.source, environment, reference, roles["validation"])
        self.pipeline.add_stage(stage, pre=before, post=[validation])

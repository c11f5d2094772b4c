"""Notifications of a pipeline: a topic, its subscribers, and the events."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Stack
from aws_cdk import aws_codepipeline as codepipeline
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct


class Notices(Construct):
    """An encrypted topic that accepts messages over TLS only."""

    topic: sns.Topic

    def __init__(self, scope: Construct, construct_id: str, *, emails: Sequence[str], key: kms.Key) -> None:
        super().__init__(scope, construct_id)
        self.topic = sns.Topic(self, "Topic", display_name="Trainyard", master_key=key, enforce_ssl=True)
        for address in emails:
            self.topic.add_subscription(subscriptions.EmailSubscription(address))
        key.add_to_resource_policy(
            iam.PolicyStatement(
                sid="Notifications",
                principals=[iam.ServicePrincipal("codestar-notifications.amazonaws.com")],
                actions=["kms:Decrypt", "kms:GenerateDataKey*"],
                resources=["*"],
                # As in the notifications guide, which has no condition on the source account.
                conditions={"StringEquals": {"kms:ViaService": f"sns.{Stack.of(self).region}.amazonaws.com"}},
            )
        )

    def notify_on(self, pipeline: codepipeline.Pipeline) -> None:
        """Notify of failed, succeeded, canceled and superseded executions of `pipeline`.

        The gate sends its own approval notices: AWS's event would also be sent for approvals that need no person.
        """
        events = codepipeline.PipelineNotificationEvents
        pipeline.notify_on(
            "Notifications",
            self.topic,
            events=[
                events.PIPELINE_EXECUTION_FAILED,
                events.PIPELINE_EXECUTION_SUCCEEDED,
                events.PIPELINE_EXECUTION_CANCELED,
                events.PIPELINE_EXECUTION_SUPERSEDED,
                events.MANUAL_APPROVAL_FAILED,
            ],
        )

"""Slack, Microsoft Teams and webhooks as receivers of an environment's notifications."""

from __future__ import annotations

from aws_cdk import ArnFormat, Duration, Stack
from aws_cdk import aws_chatbot as chatbot
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from settings.model import Environment
from settings.model.observability import Notify
from trainyard.cloudwatch_alarms import runbook
from trainyard.python_function import PythonFunction
from trainyard.retention import FunctionLogs


class Chat(Construct):
    """A function that rewrites each message and sends it to a webhook, and to Amazon Q Developer in chat applications.

    Amazon Q Developer drops messages that it does not know, without an error. It therefore has a topic of its own, to
    which the function sends the messages in the custom notification schema. A message that does not arrive is counted
    by the function's metric Errors; an alarm reports it to the other subscribers.

    Args:
        topic: whose messages are sent; `key` encrypts them, and those of the second topic.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: Environment,
        topic: sns.Topic,
        key: kms.Key,
        logs: FunctionLogs,
    ) -> None:
        super().__init__(scope, construct_id)
        name, notify = environment.name, environment.observability.notify
        made = PythonFunction(
            self,
            "Function",
            module="chat_notifications/handler.py",
            description="Sends notifications to chat",
            timeout=Duration.minutes(1),
            logs=logs,
        )
        # The function itself tries again; a second run would repeat what has arrived in one of two places.
        made.function.configure_async_invoke(retry_attempts=0)
        topic.add_subscription(subscriptions.LambdaSubscription(made.function))
        if notify.webhook_secret:
            self._allow_secret(made, notify.webhook_secret)
        if notify.slack or notify.teams:
            chat_topic = sns.Topic(self, "Topic", master_key=key, enforce_ssl=True)
            made.function.add_environment("CHAT_TOPIC_ARN", chat_topic.topic_arn)
            made.role.add_to_policy(iam.PolicyStatement(actions=["sns:Publish"], resources=[chat_topic.topic_arn]))
            self._channels(name, notify, chat_topic.topic_arn)
        alarm = cloudwatch.Alarm(
            self,
            "Undelivered",
            alarm_name=f"{name}-ChatUndelivered",
            alarm_description=(
                f"Notifications of {name} do not reach chat.\nFirst command: aws logs tail "
                f"{made.function.log_group.log_group_name} --since 1h\n"
                f"Runbook: {runbook(environment, 'ChatUndelivered')}"
            ),
            metric=made.function.metric_errors(period=Duration.minutes(5)),
            threshold=1,
            evaluation_periods=1,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        # No OK action: its message would fail too and start the alarm again, without an end.
        alarm.add_alarm_action(actions.SnsAction(topic))

    def _allow_secret(self, made: PythonFunction, secret: str) -> None:
        made.function.add_environment("WEBHOOK_SECRET", secret)
        # The ARN of a secret ends in a hyphen and six characters of its own.
        arn = Stack.of(self).format_arn(
            service="secretsmanager",
            resource="secret",
            resource_name=f"{secret}-??????",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        made.role.add_to_policy(iam.PolicyStatement(actions=["secretsmanager:GetSecretValue"], resources=[arn]))

    def _channels(self, name: str, notify: Notify, topic_arn: str) -> None:
        role = iam.Role(
            self,
            "ChannelRole",
            assumed_by=iam.ServicePrincipal("chatbot.amazonaws.com"),
            description="Of the chat channels: allows nothing, the channels only show notifications",
        )
        # Without a policy of its own, the channel has AdministratorAccess as the limit of what members may ask for.
        deny = iam.ManagedPolicy.from_aws_managed_policy_name("AWSDenyAll").managed_policy_arn
        if notify.slack:
            chatbot.CfnSlackChannelConfiguration(
                self,
                "Slack",
                configuration_name=f"trainyard-{name}",
                slack_workspace_id=notify.slack.workspace,
                slack_channel_id=notify.slack.channel,
                iam_role_arn=role.role_arn,
                guardrail_policies=[deny],
                logging_level="ERROR",
                sns_topic_arns=[topic_arn],
            )
        if notify.teams:
            chatbot.CfnMicrosoftTeamsChannelConfiguration(
                self,
                "Teams",
                configuration_name=f"trainyard-{name}-teams",
                teams_tenant_id=notify.teams.tenant,
                team_id=notify.teams.team,
                teams_channel_id=notify.teams.channel,
                iam_role_arn=role.role_arn,
                guardrail_policies=[deny],
                logging_level="ERROR",
                sns_topic_arns=[topic_arn],
            )

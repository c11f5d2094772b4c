"""The SNS topics of an environment: who may publish to them, and who receives their messages."""

from __future__ import annotations

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from settings.model import Environment
from settings.stacks import topic_arn
from trainyard.chat import Chat
from trainyard.retention import FunctionLogs


class Notifications(Construct):
    """An encrypted topic that accepts messages over TLS only, from CloudWatch, EventBridge and roles of the account.

    Subscribers: e-mail addresses, which must confirm; Slack, Microsoft Teams and a webhook through `Chat`. The
    parameter /trainyard/<environment>/observability/topic-arn has the topic's ARN.

    Slurm's mails go to a topic of their own, to which an operator subscribes users with a filter. A filter on the one
    topic could not leave them out: it also drops messages without attributes, such as those of CloudWatch's alarms.
    """

    topic: sns.Topic

    def __init__(self, scope: Construct, construct_id: str, *, environment: Environment, logs: FunctionLogs) -> None:
        super().__init__(scope, construct_id)
        stack = Stack.of(self)
        # Not the key of SNS itself: services may not use that. It encrypts nothing that lasts.
        self._key = kms.Key(
            self,
            "Key",
            description=f"Notifications of {environment.name}",
            enable_key_rotation=True,
            removal_policy=RemovalPolicy.DESTROY,
            pending_window=Duration.days(7),
        )
        self.topic = self._topic("Topic", environment, topic_arn(environment))
        self._topic("Jobs", environment, topic_arn(environment, "jobs"))
        # As in the policy of SNS's own key: whoever may publish to the topic may use the key through SNS.
        self._allow_key(
            "Publishers",
            iam.AnyPrincipal(),
            {"kms:CallerAccount": stack.account, "kms:ViaService": f"sns.{stack.region}.amazonaws.com"},
        )
        self.allow_service("cloudwatch.amazonaws.com")
        notify = environment.observability.notify
        for address in notify.emails:
            self.topic.add_subscription(subscriptions.EmailSubscription(address))
        if notify.webhook_secret or notify.slack or notify.teams:
            Chat(self, "Chat", environment=environment, topic=self.topic, key=self._key, logs=logs)
        ssm.StringParameter(
            self,
            "TopicArn",
            parameter_name=f"/trainyard/{environment.name}/observability/topic-arn",
            string_value=self.topic.topic_arn,
        )

    def _topic(self, construct_id: str, environment: Environment, arn: str) -> sns.Topic:
        return sns.Topic(
            self,
            construct_id,
            topic_name=arn.rpartition(":")[2],
            display_name=f"Trainyard {environment.name}",
            master_key=self._key,
            enforce_ssl=True,
        )

    def allow_service(self, service: str, *more: str) -> None:
        """Let a service of AWS publish, and call `more`, for resources of this account.

        The topic's policy has the condition, the key's has none, as in the guides (Amazon Managed Service for
        Prometheus, alert receiver; EventBridge, troubleshooting): not every service names the account to KMS, and
        messages would be lost without an error.
        """
        principal, sid = iam.ServicePrincipal(service), f"Publish{service.partition('.')[0].capitalize()}"
        self.topic.add_to_resource_policy(
            iam.PolicyStatement(
                sid=sid,
                principals=[principal],
                actions=["sns:Publish", *more],
                resources=[self.topic.topic_arn],
                conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self).account}},
            )
        )
        self._allow_key(sid, principal)

    def _allow_key(self, sid: str, principal: iam.IPrincipal, equal: dict[str, str] | None = None) -> None:
        self._key.add_to_resource_policy(
            iam.PolicyStatement(
                sid=sid,
                principals=[principal],
                actions=["kms:Decrypt", "kms:GenerateDataKey*"],
                resources=["*"],
                conditions={"StringEquals": equal} if equal else None,
            )
        )

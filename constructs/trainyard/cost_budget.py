"""The AWS budget of an environment."""

from __future__ import annotations

import json

from aws_cdk import CustomResource, Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sns as sns
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from settings.model import Environment
from settings.model.cost import Budget
from settings.stacks import ENVIRONMENT_TAG
from trainyard.cloudwatch_alarms import runbook
from trainyard.head_node_documents import NewJobs
from trainyard.notifications import Notifications
from trainyard.principals import own_service
from trainyard.python_function import PythonFunction
from trainyard.retention import FunctionLogs


class CostBudget(Construct):
    """A monthly cost budget of the environment's tag, with alerts at 50, 80 and 100 %, and at a forecast of 100 %.

    Alerts go to the addresses of the budget and to the environment's topic. With `at_limit: stop-new-jobs` a function
    compares spend and budget every hour, and keeps Slurm from starting jobs while the budget is used up.

    Args:
        notifications: the environment's topic; None without observability.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: Environment,
        budget: Budget,
        notifications: Notifications | None,
        logs: FunctionLogs,
    ) -> None:
        super().__init__(scope, construct_id)
        self._environment, self._notifications, self._logs = environment, notifications, logs
        stack = Stack.of(self)
        # Budgets are global: the region keeps environments of one name in two regions apart.
        self._name = f"trainyard-{environment.name}-{environment.region}"
        self._arn = f"arn:{stack.partition}:budgets::{stack.account}:budget/{self._name}"
        self._topic_arn = notifications.topic.topic_arn if notifications else ""
        manage = PythonFunction(
            self,
            "Manage",
            module="cost_budget/manage.py",
            description="Creates, changes and deletes the environment's budget",
            timeout=Duration.minutes(2),
            logs=logs,
        )
        allowed = ["budgets:ModifyBudget", "budgets:ViewBudget", "budgets:TagResource"]
        policy = iam.Policy(
            self,
            "Budget",
            roles=[manage.role],
            statements=[iam.PolicyStatement(actions=allowed, resources=[self._arn])],
        )
        resource = CustomResource(
            self,
            "Resource",
            resource_type="Custom::CostBudget",
            service_token=manage.function.function_arn,
            properties={
                "Account": stack.account,
                "Name": self._name,
                "MonthlyUsd": str(budget.monthly_usd),
                "TagKey": ENVIRONMENT_TAG,
                "Environment": environment.name,
                "Emails": list(budget.emails),
                "TopicArn": self._topic_arn,
            },
        )
        resource.node.add_dependency(policy)
        if notifications:
            notifications.allow_service("budgets.amazonaws.com")
            # AWS Budgets refuses a topic that it may not publish to.
            resource.node.add_dependency(notifications)
        if budget.at_limit == "stop-new-jobs":
            self._stop_new_jobs().node.add_dependency(resource)

    def _stop_new_jobs(self) -> scheduler.CfnSchedule:
        environment, stack = self._environment, Stack.of(self)
        document = NewJobs(self, "NewJobs", cluster_name=environment.cluster_name)
        parameter = f"/trainyard/{environment.name}/head-node/instance-id"
        made = PythonFunction(
            self,
            "Limit",
            module="cost_budget/limit.py",
            description="Keeps Slurm from starting jobs while the budget is used up",
            timeout=Duration.minutes(3),
            logs=self._logs,
            environment={
                "ENVIRONMENT": environment.name,
                "ACCOUNT": stack.account,
                "BUDGET": self._name,
                "DOCUMENT": document.document_name,
                "PARAMETER": parameter,
                "TOPIC_ARN": self._topic_arn,
            },
        )
        document.grant_send(made.role)
        named = stack.format_arn(service="ssm", resource="parameter", resource_name=parameter.lstrip("/"))
        made.role.add_to_policy(iam.PolicyStatement(actions=["budgets:ViewBudget"], resources=[self._arn]))
        made.role.add_to_policy(iam.PolicyStatement(actions=["ssm:GetParameter"], resources=[named]))
        if self._notifications:
            publish = iam.PolicyStatement(actions=["sns:Publish"], resources=[self._topic_arn])
            made.role.add_to_policy(publish)
            self._alarm(made, self._notifications.topic)
        ssm.StringParameter(
            self,
            "Function",
            parameter_name=f"/trainyard/{environment.name}/budget/limit-function",
            string_value=made.function.function_name,
        )
        role = iam.Role(
            self,
            "SchedulerRole",
            assumed_by=own_service(self, "scheduler.amazonaws.com"),
            description="Starts the function that compares spend and budget",
        )
        function_arn = made.function.function_arn
        role.add_to_policy(iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=[function_arn]))
        return scheduler.CfnSchedule(
            self,
            "Schedule",
            description=f"Spend and budget of {environment.name}",
            schedule_expression="rate(1 hour)",
            flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
            target=scheduler.CfnSchedule.TargetProperty(arn=function_arn, role_arn=role.role_arn, input=json.dumps({})),
        )

    def _alarm(self, made: PythonFunction, topic: sns.ITopic) -> None:
        """A limit that is not enforced is reported: the head node may be unreachable."""
        environment = self._environment
        alarm = cloudwatch.Alarm(
            self,
            "NotEnforced",
            alarm_name=f"{environment.name}-BudgetNotEnforced",
            alarm_description=(
                f"The budget of {environment.name} was not compared with its spend.\n"
                f"First command: aws logs tail {made.function.log_group.log_group_name} --since 2h\n"
                f"Runbook: {runbook(environment, 'BudgetNotEnforced')}"
            ),
            metric=made.function.metric_errors(period=Duration.hours(1)),
            threshold=1,
            evaluation_periods=2,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        alarm.add_alarm_action(actions.SnsAction(topic))

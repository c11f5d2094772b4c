"""The budget of an environment in the stack observability: what is made when, what may be done, and by whom."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from aws_cdk.assertions import Template

from stacks.observability import ObservabilityStack
from tests.constructs.stacks_of import allowed, app_without_bundling, environment, function_role, observability, only
from tests.constructs.test_rules import rules_find_nothing

BUDGET = "arn:<AWS::Partition>:budgets::111122223333:budget/trainyard-unit-eu-central-1"


def build(app: Any, mode: str, at_limit: str) -> ObservabilityStack:  # noqa: ANN401
    budget = {"monthly_usd": 90000, "emails": ["finance@example.com"], "at_limit": at_limit}
    return observability(app, environment(observability={"mode": mode}, cost={"budget": budget}))


@functools.cache
def template(mode: str = "off", at_limit: str = "alert") -> Template:
    return Template.from_stack(build(app_without_bundling(), mode, at_limit))


def resources(granted: dict[str, list[dict[str, Any]]]) -> dict[str, list[str]]:
    """The resources of each action, as text with resolved partitions."""
    return {action: [text(item["Resource"]) for item in items] for action, items in granted.items()}


def text(value: object) -> str:
    if isinstance(value, dict) and "Fn::Join" in value:
        return "".join(map(text, value["Fn::Join"][1]))
    return f"<{value['Ref']}>" if isinstance(value, dict) and "Ref" in value else str(value)


@pytest.mark.parametrize("mode", ["off", "cloudwatch"])
def test_aws_solutions_rules_and_cfn_lint_find_nothing(tmp_path: Path, mode: str) -> None:
    app = app_without_bundling(tmp_path)
    build(app, mode, "stop-new-jobs")
    rules_find_nothing(app, tmp_path)


def test_a_budget_counts_the_environments_tag_and_works_without_observability() -> None:
    made = template()
    properties = only(made, "Custom::CostBudget")["Properties"]
    assert properties["MonthlyUsd"] == "90000"
    assert (properties["TagKey"], properties["Environment"]) == ("trainyard:environment", "unit")
    assert (properties["Emails"], properties["TopicArn"]) == (["finance@example.com"], "")
    assert properties["Name"] == "trainyard-unit-eu-central-1"
    assert not made.find_resources("AWS::CloudFormation::WaitConditionHandle")
    # An alert alone sends no command to anything.
    assert not made.find_resources("AWS::SSM::Document")
    assert not made.find_resources("AWS::Scheduler::Schedule")


def test_the_function_may_change_this_budget_and_nothing_else() -> None:
    made = template()
    [log] = made.find_resources("AWS::Logs::LogGroup")
    assert resources(allowed(made)) == {
        **{f"budgets:{action}": [BUDGET] for action in ("ModifyBudget", "TagResource", "ViewBudget")},
        **{f"logs:{action}": [text({"Fn::GetAtt": [log, "Arn"]})] for action in ("CreateLogStream", "PutLogEvents")},
    }


def test_alerts_go_to_the_topic_that_aws_budgets_may_publish_to() -> None:
    made = template("cloudwatch")
    resource = only(made, "Custom::CostBudget")
    assert "Ref" in resource["Properties"]["TopicArn"]
    policies = made.find_resources("AWS::SNS::TopicPolicy")
    [name] = [name for name, item in policies.items() if "budgets.amazonaws.com" in json.dumps(item)]
    assert name in resource["DependsOn"]
    [publishes] = [
        item
        for item in policies[name]["Properties"]["PolicyDocument"]["Statement"]
        if item.get("Principal") == {"Service": "budgets.amazonaws.com"}
    ]
    assert publishes["Condition"] == {"StringEquals": {"aws:SourceAccount": "111122223333"}}
    key = only(made, "AWS::KMS::Key")["Properties"]["KeyPolicy"]["Statement"]
    assert any(item["Principal"] == {"Service": "budgets.amazonaws.com"} for item in key)


def test_the_limit_may_send_one_document_with_two_words_to_the_head_node() -> None:
    made = template("cloudwatch", "stop-new-jobs")
    content = only(made, "AWS::SSM::Document")["Properties"]["Content"]
    assert content["parameters"]["Action"]["allowedValues"] == ["stop", "resume"]
    granted = allowed(made, function_role(made, "cost_budget.limit.handler"))
    reached = resources(granted)
    [document] = made.find_resources("AWS::SSM::Document")
    [topic] = made.find_resources("AWS::SNS::Topic", {"Properties": {"TopicName": "trainyard-unit-notifications"}})
    account = "eu-central-1:111122223333"
    assert reached.pop("logs:PutLogEvents") == reached.pop("logs:CreateLogStream") != ["*"]
    assert reached == {
        "ssm:SendCommand": [
            f"arn:<AWS::Partition>:ssm:{account}:document/<{document}>",
            f"arn:<AWS::Partition>:ec2:{account}:instance/*",
        ],
        "ssm:GetCommandInvocation": ["*"],
        "budgets:ViewBudget": [BUDGET],
        "ssm:GetParameter": [f"arn:<AWS::Partition>:ssm:{account}:parameter/trainyard/unit/head-node/instance-id"],
        "sns:Publish": [f"<{topic}>"],
    }
    assert granted["ssm:SendCommand"][1]["Condition"]["StringEquals"] == {
        "ssm:resourceTag/parallelcluster:cluster-name": "unit",
        "ssm:resourceTag/parallelcluster:node-type": "HeadNode",
    }
    schedule = only(made, "AWS::Scheduler::Schedule")
    assert schedule["Properties"]["ScheduleExpression"] == "rate(1 hour)"
    assert set(made.find_resources("Custom::CostBudget")) <= set(schedule["DependsOn"])
    assert only(made, "AWS::CloudWatch::Alarm", AlarmName="unit-BudgetNotEnforced")

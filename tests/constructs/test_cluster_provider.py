"""The functions and the state machine behind `Custom::ParallelCluster`."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_logs as logs
from aws_cdk.assertions import Template

from trainyard.cluster_provider import ClusterProvider

ROLE = "arn:aws:iam::111122223333:role/ParallelClusterApiUserRole-1"


@pytest.fixture(scope="module")
def template() -> Template:
    stack = cdk.Stack()
    ClusterProvider(
        stack,
        "Provider",
        api_user_role_arn=ROLE,
        log_retention=logs.RetentionDays.ONE_WEEK,
        log_removal=cdk.RemovalPolicy.DESTROY,
    )
    return Template.from_stack(stack)


@pytest.fixture(scope="module")
def states(template: Template) -> dict[str, Any]:
    [machine] = template.find_resources("AWS::StepFunctions::StateMachine").values()
    parts = machine["Properties"]["DefinitionString"]["Fn::Join"][1]
    definition = json.loads("".join(part if isinstance(part, str) else "ARN" for part in parts))
    assert definition["StartAt"] == "Receive"
    # An execution that is stopped from outside answers nobody: no shorter than CloudFormation waits.
    assert definition["TimeoutSeconds"] > 3600
    found: dict[str, Any] = definition["States"]
    return found


def statements(template: Template, function: str) -> list[dict[str, Any]]:
    """What the role of the function with that handler may do."""
    [found] = [
        item["Properties"]["Role"]["Fn::GetAtt"][0]
        for item in template.find_resources("AWS::Lambda::Function").values()
        if item["Properties"]["Handler"] == function
    ]
    return [
        statement
        for policy in template.find_resources("AWS::IAM::Policy").values()
        if {"Ref": found} in policy["Properties"]["Roles"]
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
    ]


def test_work_may_assume_the_api_user_role_and_write_its_log_and_nothing_else(template: Template) -> None:
    logging, assume = statements(template, "cluster_resource.work.handler")
    assert logging["Action"] == ["logs:CreateLogStream", "logs:PutLogEvents"]
    assert assume == {"Action": "sts:AssumeRole", "Effect": "Allow", "Resource": ROLE}


def test_on_event_may_start_the_state_machine_and_write_its_log_and_nothing_else(template: Template) -> None:
    _, start = statements(template, "cluster_resource.on_event.handler")
    [machine] = template.find_resources("AWS::StepFunctions::StateMachine")
    assert start == {"Action": "states:StartExecution", "Effect": "Allow", "Resource": {"Ref": machine}}
    assert len(statements(template, "cluster_resource.on_event.handler")) == 2


def test_no_role_has_a_policy_of_aws(template: Template) -> None:
    for role in template.find_resources("AWS::IAM::Role").values():
        assert "ManagedPolicyArns" not in role["Properties"]


def test_functions_run_on_the_decided_runtime_with_logs_that_end(template: Template) -> None:
    template.all_resources_properties(
        "AWS::Lambda::Function", {"Runtime": "python3.13", "Architectures": ["arm64"], "MemorySize": 256}
    )
    template.all_resources_properties("AWS::Logs::LogGroup", {"RetentionInDays": 7})


def test_logs_hold_no_execution_data(template: Template) -> None:
    template.has_resource_properties(
        "AWS::StepFunctions::StateMachine",
        {
            "LoggingConfiguration": {"IncludeExecutionData": False, "Level": "ALL"},
            "TracingConfiguration": {"Enabled": True},
        },
    )


def test_the_work_begins_and_is_polled_until_it_is_settled(states: dict[str, Any]) -> None:
    assert states["Receive"]["Parameters"] == {"event.$": "$", "started.$": "$$.Execution.StartTime"}
    assert [states[name]["Next"] for name in ("Receive", "Begin", "Wait", "Poll")] == [
        "Begin",
        "Settled?",
        "Poll",
        "Settled?",
    ]
    assert states["Settled?"] == {
        "Type": "Choice",
        "Choices": [{"Variable": "$.state", "StringEquals": "waiting", "Next": "Wait"}],
        "Default": "Answer",
    }


@pytest.mark.parametrize("name", ["Begin", "Poll", "Answer"])
def test_a_step_calls_work_with_its_name_and_the_work_so_far(states: dict[str, Any], name: str) -> None:
    assert states[name]["Resource"] == "ARN"
    assert states[name]["Parameters"] == {"step": name.lower(), "work.$": "$"}
    assert states[name]["Retry"][0]["ErrorEquals"] == ["States.ALL"]


@pytest.mark.parametrize("name", ["Begin", "Poll"])
def test_every_error_leads_to_an_answer(states: dict[str, Any], name: str) -> None:
    assert states[name]["Catch"] == [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Answer"}]


def test_an_answer_of_failure_is_a_failed_execution(states: dict[str, Any]) -> None:
    assert states["Succeeded?"]["Choices"] == [{"Variable": "$.status", "StringEquals": "SUCCESS", "Next": "Done"}]
    assert states[states["Succeeded?"]["Default"]]["Type"] == "Fail"

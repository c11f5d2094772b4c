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
        cluster_name="training",
        cluster_stack_name="lab-cluster",
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
    # An execution that is stopped from outside answers nobody: no shorter than the longest time limit.
    assert definition["TimeoutSeconds"] > 720 * 60
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


def actions(allowed: list[dict[str, Any]]) -> dict[str, str]:
    """What is allowed, by action, with the resource as text."""
    return {
        action: json.dumps(statement["Resource"])
        for statement in allowed
        for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
    }


def test_work_may_assume_the_api_user_role_and_otherwise_look_only(template: Template) -> None:
    allowed = actions(statements(template, "cluster_resource.work.handler"))
    assert set(allowed) == {
        *("logs:CreateLogStream", "logs:PutLogEvents", "sts:AssumeRole", "states:DescribeExecution"),
        *("cloudformation:DescribeStacks", "cloudformation:DescribeStackEvents"),
        *("ssm:SendCommand", "ssm:GetCommandInvocation"),
    }
    assert allowed["sts:AssumeRole"] == json.dumps(ROLE)
    assert ":stack/lab-cluster/*" in allowed["cloudformation:DescribeStacks"]
    assert ":stack/training-*/*" in allowed["cloudformation:DescribeStackEvents"]


def test_the_head_node_is_asked_one_fixed_question(template: Template) -> None:
    sends = [
        statement
        for statement in statements(template, "cluster_resource.work.handler")
        if statement["Action"] == "ssm:SendCommand"
    ]
    [document] = template.find_resources("AWS::SSM::Document")
    on_document, on_instances = sends
    assert {"Ref": document} in on_document["Resource"]["Fn::Join"][1]
    assert on_instances["Condition"]["StringEquals"] == {
        "ssm:resourceTag/parallelcluster:cluster-name": "training",
        "ssm:resourceTag/parallelcluster:node-type": "HeadNode",
    }
    content = template.find_resources("AWS::SSM::Document")[document]["Properties"]["Content"]
    assert "parameters" not in content
    [step] = content["mainSteps"]
    assert step["inputs"]["runCommand"][0] == "#!/bin/bash"
    assert "squeue --noheader" in step["inputs"]["runCommand"][-1]


def test_on_event_may_start_and_order_executions_of_the_state_machine_and_nothing_else(template: Template) -> None:
    allowed = actions(statements(template, "cluster_resource.on_event.handler"))
    [machine] = template.find_resources("AWS::StepFunctions::StateMachine")
    assert set(allowed) == {
        *("logs:CreateLogStream", "logs:PutLogEvents"),
        *("states:StartExecution", "states:ListExecutions", "states:StopExecution"),
    }
    assert allowed["states:StartExecution"] == allowed["states:ListExecutions"] == json.dumps({"Ref": machine})
    assert ":execution:" in allowed["states:StopExecution"] and machine in allowed["states:StopExecution"]


def test_no_event_is_delivered_when_cloudformation_has_stopped_waiting(template: Template) -> None:
    template.has_resource_properties(
        "AWS::Lambda::EventInvokeConfig", {"MaximumEventAgeInSeconds": 300, "MaximumRetryAttempts": 2}
    )


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
    assert states["Receive"]["Parameters"] == {
        "event.$": "$",
        "started.$": "$$.Execution.StartTime",
        "execution.$": "$$.Execution.Id",
    }
    assert [states[name]["Next"] for name in ("Receive", "Begin", "Wait", "Poll")] == [
        "Begin",
        "Settled?",
        "Poll",
        "Settled?",
    ]
    assert states["Settled?"] == {
        "Type": "Choice",
        "Choices": [
            {"Variable": "$.state", "StringEquals": "waiting", "Next": "Wait"},
            {"Variable": "$.state", "StringEquals": "early", "Next": "Tell"},
        ],
        "Default": "Answer",
    }


def test_after_an_answer_for_the_time_being_the_work_goes_on(states: dict[str, Any]) -> None:
    assert states["Tell"]["Next"] == "Wait"


@pytest.mark.parametrize("name", ["Begin", "Poll", "Tell", "Answer"])
def test_a_step_calls_work_with_its_name_and_the_work_so_far(states: dict[str, Any], name: str) -> None:
    assert states[name]["Resource"] == "ARN"
    assert states[name]["Parameters"] == {"step": name.lower(), "work.$": "$"}
    assert states[name]["Retry"][0]["ErrorEquals"] == ["States.ALL"]


@pytest.mark.parametrize("name", ["Begin", "Poll", "Tell"])
def test_every_error_leads_to_an_answer(states: dict[str, Any], name: str) -> None:
    assert states[name]["Catch"] == [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Answer"}]


def test_an_answer_of_failure_is_a_failed_execution(states: dict[str, Any]) -> None:
    assert states["Succeeded?"]["Choices"] == [{"Variable": "$.status", "StringEquals": "SUCCESS", "Next": "Done"}]
    refused = states[states["Succeeded?"]["Default"]]
    # What waits for the execution reads its cause.
    assert (refused["Type"], refused["CausePath"]) == ("Fail", "$.reason")

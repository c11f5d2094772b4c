"""The functions and the state machine behind `Custom::ParallelCluster`."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from tests.cluster_resource.events import POLL_SECONDS
from tests.constructs.stacks_of import allowed, function_role
from trainyard.cluster_provider import ClusterProvider
from trainyard.retention import FunctionLogs

pytestmark = pytest.mark.xdist_group("constructs-cluster-provider")

ROLE = "arn:aws:iam::111122223333:role/PCAPIUserRole-1"


@pytest.fixture(scope="module")
def template() -> Template:
    stack = cdk.Stack()
    ClusterProvider(
        stack,
        "Provider",
        cluster_names=["training", "former"],
        cluster_stack_name="lab-cluster",
        api_user_role_arn=ROLE,
        logs=FunctionLogs(7, kept=False),
    )
    return Template.from_stack(stack)


def granted(template: Template, handler: str) -> dict[str, list[dict[str, Any]]]:
    """What the function with that handler may do."""
    return allowed(template, function_role(template, handler))


def resources(granted: dict[str, list[dict[str, Any]]]) -> dict[str, list[str]]:
    """The resources of each action, as text."""
    return {action: [json.dumps(item["Resource"]) for item in items] for action, items in granted.items()}


def test_work_may_assume_the_api_user_role_and_otherwise_look_only(template: Template) -> None:
    found = resources(granted(template, "cluster_resource.handler.handler"))
    assert set(found) == {
        *("logs:CreateLogStream", "logs:PutLogEvents", "sts:AssumeRole", "states:DescribeExecution"),
        *("cloudformation:DescribeStacks", "cloudformation:DescribeStackEvents"),
        *("ssm:SendCommand", "ssm:GetCommandInvocation"),
    }
    assert found["sts:AssumeRole"] == [json.dumps(ROLE)]
    [stacks], [events] = (found[f"cloudformation:DescribeStack{kind}"] for kind in ("s", "Events"))
    assert ":stack/lab-cluster/*" in stacks
    assert all(f":stack/{name}-*/*" in events for name in ("training", "former"))
    assert [action for action, texts in found.items() if '"*"' in texts] == ["ssm:GetCommandInvocation"]


def test_the_head_node_is_sent_one_fixed_document(template: Template) -> None:
    [document] = template.find_resources("AWS::SSM::Document")
    on_document, on_instances = granted(template, "cluster_resource.handler.handler")["ssm:SendCommand"]
    assert {"Ref": document} in on_document["Resource"]["Fn::Join"][1]
    # By owner: after a rename, the jobs of the old cluster are counted too.
    condition = on_instances["Condition"]
    assert condition["StringEquals"] == {"ssm:resourceTag/parallelcluster:node-type": "HeadNode"}
    assert json.dumps(condition["StringLike"]["ssm:resourceTag/trainyard:owner"]).endswith(':stack/lab-cluster/*"]]}')
    assert "parameters" not in template.find_resources("AWS::SSM::Document")[document]["Properties"]["Content"]


def test_on_event_may_start_and_order_executions_of_the_state_machine_and_nothing_else(template: Template) -> None:
    found = resources(granted(template, "cluster_resource.on_event.handler"))
    [machine] = template.find_resources("AWS::StepFunctions::StateMachine")
    assert set(found) == {
        *("logs:CreateLogStream", "logs:PutLogEvents"),
        *("states:StartExecution", "states:ListExecutions", "states:StopExecution"),
    }
    assert found["states:StartExecution"] == found["states:ListExecutions"] == [json.dumps({"Ref": machine})]
    [stopped] = found["states:StopExecution"]
    assert ":execution:" in stopped and machine in stopped


def test_every_error_leads_to_an_answer(template: Template) -> None:
    [machine] = template.find_resources("AWS::StepFunctions::StateMachine").values()
    parts = machine["Properties"]["DefinitionString"]["Fn::Join"][1]
    definition = json.loads("".join(part if isinstance(part, str) else "ARN" for part in parts))
    # An execution that is stopped from outside answers nobody: no shorter than the longest time limit.
    assert definition["TimeoutSeconds"] > 720 * 60
    # The handler counts some of its limits in polls, and its tests polls as long as these.
    wait = definition["States"]["Wait"]["Seconds"]
    assert wait == POLL_SECONDS
    # Wait (2 events), Task (5), Choice (2); a fifth of Step Functions' 25,000 events is left for retries.
    assert 720 * 60 / wait * 9 < 25_000 * 0.8
    tasks = {name: state for name, state in definition["States"].items() if state["Type"] == "Task"}
    assert set(tasks) == {"Begin", "Poll", "Early", "Answer"}
    for name, state in tasks.items():
        assert state["Parameters"] == {"step": name.lower(), "work.$": "$"}
        assert state["Retry"][0]["ErrorEquals"] == ["States.ALL"]
        caught = [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Answer"}]
        assert state.get("Catch") == (None if name == "Answer" else caught)

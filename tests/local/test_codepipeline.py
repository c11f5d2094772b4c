"""CodePipeline of the emulated AWS: what it refuses, and who may answer an approval."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, WaiterError

from local.emulator import launch
from local.steering import Steer, SteeringRefused

pytestmark = pytest.mark.e2e

Clients = Callable[[str], Any]
ROLE = "arn:aws:iam::111122223333:role/pipeline"


@pytest.fixture(scope="module")
def client(aws: boto3.Session, emulator: launch.Emulator) -> Clients:
    """Clients of the emulator's services, by name."""
    untyped: Any = aws
    return lambda service: untyped.client(service, endpoint_url=emulator.endpoint)


def properties(name: str) -> dict[str, Any]:
    def action(title: str, category: str, provider: str, **more: object) -> dict[str, Any]:
        kind = {"Category": category, "Owner": "AWS", "Provider": provider, "Version": "1"}
        return {"Name": title, "ActionTypeId": kind, "RunOrder": 1, **more}

    source = {"ConnectionArn": "arn:x", "FullRepositoryId": "o/r", "BranchName": "main"}
    return {
        "Name": name,
        "RoleArn": ROLE,
        "ArtifactStore": {"Type": "S3", "Location": "bucket-of-artifacts"},
        "Stages": [
            {
                "Name": "Source",
                "Actions": [
                    action(
                        "Get",
                        "Source",
                        "CodeStarSourceConnection",
                        Configuration=source,
                        OutputArtifacts=[{"Name": "Code"}],
                    )
                ],
            },
            {
                "Name": "Ask",
                "Actions": [action("Person", "Approval", "Manual", Configuration={"CustomData": "really?"})],
            },
        ],
    }


def deploy(client: Clients, given: dict[str, Any]) -> tuple[str, str]:
    """Make a stack of one pipeline: its status, and the reasons that it gives."""
    formation = client("cloudformation")
    template = {"Resources": {"P": {"Type": "AWS::CodePipeline::Pipeline", "Properties": given}}}
    name = f"stack-{given['Name']}"
    formation.create_stack(StackName=name, TemplateBody=json.dumps(template))
    waiter = formation.get_waiter("stack_create_complete")
    with contextlib.suppress(WaiterError):  # what became of it is read below
        waiter.wait(StackName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 30})
    events = formation.describe_stack_events(StackName=name)["StackEvents"]
    said = "; ".join(event.get("ResourceStatusReason", "") for event in events)
    return formation.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"], said


def test_definition_is_kept_in_the_api_s_form(client: Clients) -> None:
    assert deploy(client, properties("whole"))[0] == "CREATE_COMPLETE"
    declared = client("codepipeline").get_pipeline(name="whole")["pipeline"]
    assert (declared["version"], declared["roleArn"]) == (1, ROLE)
    assert declared["stages"][0]["actions"][0]["configuration"]["FullRepositoryId"] == "o/r"
    assert declared["stages"][1]["actions"][0]["actionTypeId"]["category"] == "Approval"


def test_artifact_that_nothing_makes(client: Clients) -> None:
    given = copy.deepcopy(properties("hungry"))
    given["Stages"][1]["Actions"][0]["InputArtifacts"] = [{"Name": "Missing"}]
    status, said = deploy(client, given)
    assert status != "CREATE_COMPLETE"
    assert "takes Missing, which no action before it makes" in said


def test_approval_is_answered_once_and_by_its_token(client: Clients, emulator: launch.Emulator) -> None:
    assert deploy(client, properties("asking"))[0] == "CREATE_COMPLETE"
    steer, api = Steer(emulator), client("codepipeline")
    steer.pipeline("asking", execution="one")
    token = steer.pipeline("asking", stage="Ask", action="Person", status="InProgress")["token"]

    def answer(given: str) -> None:
        api.put_approval_result(
            pipelineName="asking",
            stageName="Ask",
            actionName="Person",
            token=given,
            result={"summary": "looked at", "status": "Approved"},
        )

    with pytest.raises(ClientError, match="InvalidApprovalTokenException"):
        answer("00000000-0000-0000-0000-000000000000")
    answer(token)
    with pytest.raises(ClientError, match="ApprovalAlreadyCompletedException"):
        answer(token)
    state = api.get_pipeline_state(name="asking")["stageStates"][1]["actionStates"][0]["latestExecution"]
    assert (state["status"], state["summary"]) == ("Succeeded", "looked at")


def test_services_take_roles_that_trust_them_for_the_resource(client: Clients, emulator: launch.Emulator) -> None:
    source = "arn:aws:codebuild:us-west-2:111122223333:project/mine"
    statement = {
        "Effect": "Allow",
        "Action": "sts:AssumeRole",
        "Principal": {"Service": "codebuild.amazonaws.com"},
        "Condition": {"ArnEquals": {"aws:SourceArn": source}},
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    role = client("iam").create_role(RoleName="of-a-build", AssumeRolePolicyDocument=policy)["Role"]["Arn"]
    steer = Steer(emulator)
    assert steer.session(role, "codebuild.amazonaws.com", source)["key"].startswith("ASIA")
    for service, resource in (("codepipeline.amazonaws.com", source), ("codebuild.amazonaws.com", f"{source}-other")):
        with pytest.raises(SteeringRefused, match="does not let"):
            steer.session(role, service, resource)

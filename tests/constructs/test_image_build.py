"""The CodeBuild project of the training image."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from aws_cdk.assertions import Template

from tests.constructs.stacks_of import only, synthesize
from trainyard.image_build import CONTEXT


def template(region: str = "eu-central-1", retention: Mapping[str, str] | None = None, **build: object) -> Template:
    return synthesize(region=region, images={"build": build}, retention=retention or {}).images


@pytest.fixture(scope="module")
def made() -> Template:
    return template(compute="2x-large", timeout_minutes=200, tag="nightly", every_days=7)


def project(made: Template) -> Mapping[str, Any]:
    found: Mapping[str, Any] = only(made, "AWS::CodeBuild::Project")["Properties"]
    return found


def variables(made: Template) -> dict[str, Any]:
    return {one["Name"]: one["Value"] for one in project(made)["Environment"]["EnvironmentVariables"]}


def statements(made: Template) -> dict[str, Mapping[str, Any]]:
    """Of the build's role, by Sid."""
    found = [
        statement
        for policy in made.find_resources("AWS::IAM::Policy").values()
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
    ]
    return {statement["Sid"]: statement for statement in found if "Sid" in statement}


def test_there_is_none_by_default() -> None:
    images = synthesize().images
    for kind in ("AWS::CodeBuild::Project", "AWS::Logs::LogGroup", "AWS::Scheduler::Schedule", "AWS::IAM::Role"):
        images.resource_count_is(kind, 0)
    assert not images.find_outputs("*")


def test_machine_limits_and_target(made: Template) -> None:
    properties = project(made)
    assert properties["Environment"]["ComputeType"] == "BUILD_GENERAL1_2XLARGE"
    assert properties["Environment"]["PrivilegedMode"] is True
    assert (properties["TimeoutInMinutes"], properties["ConcurrentBuildLimit"]) == (200, 1)
    given = variables(made)
    assert given["IMAGE_TAG"] == "nightly"
    [repository] = made.find_resources("AWS::ECR::Repository")
    assert repository in json.dumps(given["IMAGE_REPOSITORY"])


def test_the_base_image_comes_from_awss_account_of_the_region() -> None:
    jakarta = template("ap-southeast-3")
    registry = "907027046896.dkr.ecr.ap-southeast-3."
    assert variables(jakarta)["BASE_REGISTRY"]["Fn::Join"][1][0] == registry
    base = statements(jakarta)["Base"]
    assert "PutImage" not in json.dumps(base)
    assert "907027046896" in json.dumps(base["Resource"])
    assert json.dumps(base["Resource"]).rstrip(']}"').endswith(":repository/pytorch")


def test_where_the_region_has_no_known_account_the_base_image_is_the_public_one() -> None:
    elsewhere = template("ap-southeast-5")
    assert variables(elsewhere)["BASE_REGISTRY"] == "public.ecr.aws/deep-learning-containers"
    assert "Base" not in statements(elsewhere)


def test_the_role_reaches_one_repository_one_object_and_one_log_group(made: Template) -> None:
    allowed = statements(made)
    assert set(allowed) == {"Login", "Push", "Context", "ContextBucket", "Log", "Base"}
    assert allowed["Login"]["Action"] == "ecr:GetAuthorizationToken"
    [repository] = made.find_resources("AWS::ECR::Repository")
    assert allowed["Push"]["Resource"] == {"Fn::GetAtt": [repository, "Arn"]}
    location = json.dumps(project(made)["Source"]["Location"])
    key = location.rstrip('"}]').rpartition("/")[2]
    assert key.endswith(".zip")
    assert json.dumps(allowed["Context"]["Resource"]).rstrip('"}]').endswith(f"/{key}")
    assert set(allowed["ContextBucket"]["Action"]) == {"s3:GetBucketAcl", "s3:GetBucketLocation"}
    assert json.dumps(allowed["Context"]["Resource"]).startswith(json.dumps(allowed["ContextBucket"]["Resource"])[:-4])
    [group] = made.find_resources("AWS::Logs::LogGroup")
    assert allowed["Log"]["Resource"] == {"Fn::GetAtt": [group, "Arn"]}
    wild = [sid for sid, statement in allowed.items() if statement["Resource"] == "*"]
    assert wild == ["Login"]


def test_only_services_of_this_account_take_the_roles(made: Template) -> None:
    for role in made.find_resources("AWS::IAM::Role").values():
        [trust] = role["Properties"]["AssumeRolePolicyDocument"]["Statement"]
        assert trust["Condition"] == {"StringEquals": {"aws:SourceAccount": "111122223333"}}


def test_schedule_and_output_start_the_build(made: Template) -> None:
    schedule = only(made, "AWS::Scheduler::Schedule")["Properties"]
    assert schedule["ScheduleExpression"] == "rate(7 days)"
    assert json.dumps(schedule["Target"]["Arn"]).rstrip('"}]').endswith(":scheduler:::aws-sdk:codebuild:startBuild")
    [name] = made.find_resources("AWS::CodeBuild::Project")
    assert name in json.dumps(schedule["Target"]["Input"])
    [output] = made.find_outputs("StartImageBuild").values()
    command = "aws codebuild start-build --region eu-central-1 --project-name "
    assert output["Value"]["Fn::Join"][1] == [command, {"Ref": name}]


@pytest.mark.parametrize(("logs", "policy"), [("keep", "RetainExceptOnCreate"), ("delete", "Delete")])
def test_logs_are_kept_as_asked_and_there_is_no_schedule_by_default(logs: str, policy: str) -> None:
    default = template(retention={"logs": logs})
    assert only(default, "AWS::Logs::LogGroup", RetentionInDays=30)["DeletionPolicy"] == policy
    default.resource_count_is("AWS::Scheduler::Schedule", 0)


def test_the_build_file_uses_what_the_project_gives(made: Template) -> None:
    text = (CONTEXT / "buildspec.yml").read_text(encoding="utf-8")
    specification = yaml.safe_load(text)
    commands = [command for phase in specification["phases"].values() for command in phase["commands"]]
    assert all(isinstance(command, str) for command in commands)
    for name in variables(made):
        assert f"${{{name}" in text
    assert "ARG BASE_REGISTRY=" in (CONTEXT / "Dockerfile").read_text(encoding="utf-8")

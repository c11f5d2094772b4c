"""The CodeBuild project of the training image."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from aws_cdk.assertions import Match, Template

from tests.constructs.stacks_of import environment, only, synthesize
from trainyard.image_build import CONTEXT

ON: dict[str, Any] = {"build": {}}


def template(region: str = "eu-central-1", **build: object) -> Template:
    return synthesize(environment(region=region, images={"build": build})).images


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
    made = synthesize(environment()).images
    for kind in ("AWS::CodeBuild::Project", "AWS::Logs::LogGroup", "AWS::Scheduler::Schedule", "AWS::IAM::Role"):
        made.resource_count_is(kind, 0)
    assert not made.find_outputs("*")


def test_machine_and_limits() -> None:
    made = project(template(compute="2x-large", timeout_minutes=200))
    assert made["Environment"]["ComputeType"] == "BUILD_GENERAL1_2XLARGE"
    assert made["Environment"]["PrivilegedMode"] is True
    assert made["TimeoutInMinutes"] == 200
    assert made["ConcurrentBuildLimit"] == 1
    assert made["Artifacts"] == {"Type": "NO_ARTIFACTS"}


def test_a_build_is_told_where_to_push() -> None:
    made = template(tag="nightly")
    given = variables(made)
    assert given["IMAGE_TAG"] == "nightly"
    [repository] = made.find_resources("AWS::ECR::Repository")
    assert repository in json.dumps(given["IMAGE_REPOSITORY"])


@pytest.mark.parametrize(
    ("region", "registry"),
    [
        ("us-west-2", "763104351884.dkr.ecr.us-west-2."),
        ("ap-southeast-3", "907027046896.dkr.ecr.ap-southeast-3."),
    ],
)
def test_the_base_image_comes_from_awss_account_of_the_region(region: str, registry: str) -> None:
    made = template(region)
    assert variables(made)["BASE_REGISTRY"]["Fn::Join"][1][0] == registry
    base = statements(made)["Base"]
    assert "PutImage" not in json.dumps(base)
    assert registry.partition(".")[0] in json.dumps(base["Resource"])
    assert json.dumps(base["Resource"]).rstrip(']}"').endswith(":repository/pytorch")


def test_where_the_region_has_no_known_account_the_base_image_is_the_public_one() -> None:
    made = template("ap-southeast-5")
    assert variables(made)["BASE_REGISTRY"] == "public.ecr.aws/deep-learning-containers"
    assert "Base" not in statements(made)


def test_the_role_reaches_one_repository_one_object_and_one_log_group() -> None:
    made = template()
    allowed = statements(made)
    assert set(allowed) == {"Login", "Push", "Context", "Log", "Base"}
    assert allowed["Login"]["Action"] == "ecr:GetAuthorizationToken"
    [repository] = made.find_resources("AWS::ECR::Repository")
    assert allowed["Push"]["Resource"] == {"Fn::GetAtt": [repository, "Arn"]}
    location = json.dumps(project(made)["Source"]["Location"])
    key = location.rstrip('"}]').rpartition("/")[2]
    assert key.endswith(".zip")
    assert json.dumps(allowed["Context"]["Resource"]).rstrip('"}]').endswith(f"/{key}")
    [group] = made.find_resources("AWS::Logs::LogGroup")
    assert allowed["Log"]["Resource"] == {"Fn::GetAtt": [group, "Arn"]}
    wild = [sid for sid, statement in allowed.items() if statement["Resource"] == "*"]
    assert wild == ["Login"]


def test_only_codebuild_of_this_account_takes_the_role() -> None:
    template().has_resource_properties(
        "AWS::IAM::Role",
        {
            "AssumeRolePolicyDocument": Match.object_like(
                {
                    "Statement": [
                        Match.object_like(
                            {
                                "Principal": {"Service": "codebuild.amazonaws.com"},
                                "Condition": {"StringEquals": {"aws:SourceAccount": "111122223333"}},
                            }
                        )
                    ]
                }
            )
        },
    )


@pytest.mark.parametrize(("days", "rate"), [(1, "rate(1 day)"), (7, "rate(7 days)")])
def test_a_schedule_where_asked(days: int, rate: str) -> None:
    made = template(every_days=days)
    schedule = only(made, "AWS::Scheduler::Schedule")["Properties"]
    assert schedule["ScheduleExpression"] == rate
    assert json.dumps(schedule["Target"]["Arn"]).rstrip('"}]').endswith(":scheduler:::aws-sdk:codebuild:startBuild")
    [name] = made.find_resources("AWS::CodeBuild::Project")
    assert name in json.dumps(schedule["Target"]["Input"])


def test_no_schedule_by_default() -> None:
    template().resource_count_is("AWS::Scheduler::Schedule", 0)


def test_the_output_says_how_to_start_a_build() -> None:
    [output] = template().find_outputs("StartImageBuild").values()
    [name] = template().find_resources("AWS::CodeBuild::Project")
    assert output["Value"]["Fn::Join"][1] == [
        "aws codebuild start-build --region eu-central-1 --project-name ",
        {"Ref": name},
    ]


@pytest.mark.parametrize(("logs", "policy"), [("keep", "Retain"), ("delete", "Delete")])
def test_logs_are_kept_as_asked(logs: str, policy: str) -> None:
    made = synthesize(environment(images=ON, retention={"logs": logs})).images
    group = only(made, "AWS::Logs::LogGroup")
    assert group["DeletionPolicy"] == policy
    assert group["Properties"]["RetentionInDays"] == 30


def test_the_build_file_uses_what_the_project_gives() -> None:
    text = (CONTEXT / "buildspec.yml").read_text(encoding="utf-8")
    specification = yaml.safe_load(text)
    commands = [command for phase in specification["phases"].values() for command in phase["commands"]]
    assert all(isinstance(command, str) for command in commands)
    for name in variables(template()):
        assert f"${{{name}" in text
    assert "ARG BASE_REGISTRY=" in (CONTEXT / "Dockerfile").read_text(encoding="utf-8")

"""Approvals, roles and what is granted to them, notifications, artifacts."""

from __future__ import annotations

import fnmatch
import json
import re
from typing import Any

import pytest
from aws_cdk.assertions import Template

from settings.model.cluster import Api
from tests.constructs.stacks_of import allowed, listed
from tests.pipeline.conftest import Synthesis, statements_of
from trainyard.pipeline.actions import PREFLIGHT, VALIDATION
from trainyard.pipeline.names import PURPOSES
from trainyard.pipeline.permissions import grants

pytestmark = pytest.mark.xdist_group("pipeline")

ENVIRONMENTS = {"dev": "222233334444", "staging": "333344445555", "prod": "444455556666"}
GATES = {"Approve-Disruption": ("LEVEL", "nothing,safe"), "Approve-Permissions": ("PERMISSIONS", "same")}


@pytest.mark.parametrize("stage", ENVIRONMENTS)
@pytest.mark.parametrize("gate", GATES)
def test_gate_has_an_approval_and_a_function_action(synthesis: Synthesis, stage: str, gate: str) -> None:
    variable, passes = GATES[gate]
    approval, answer = synthesis.action(stage, gate), synthesis.action(stage, f"{gate}-ByVerdict")
    assert approval["ActionTypeId"]["Category"] == "Approval"
    assert f"#{{{stage}@Diff.HEADLINE}}" in approval["Configuration"]["CustomData"]
    assert answer["RunOrder"] == approval["RunOrder"]
    assert json.loads(answer["Configuration"]["UserParameters"]) == {
        "execution": "#{codepipeline.PipelineExecutionId}",
        "stage": stage,
        "action": gate,
        "value": f"#{{{stage}@Diff.{variable}}}",
        "passes": passes,
        "message": approval["Configuration"]["CustomData"],
        "link": f"#{{{stage}@Diff.REPORT_URL}}",
    }
    assert synthesis.action(stage, "Diff")["Namespace"] == f"{stage}@Diff"


def test_longest_headline_fits_the_limit_of_codepipeline(synthesis: Synthesis) -> None:
    from ops.review.command import HEADLINE_CHARACTERS

    link = "https://us-west-2.console.aws.amazon.com/codesuite/codebuild/555566667777/projects/" + "x" * 180
    for actions in synthesis.stages.values():
        for action in actions:
            for key in ("CustomData", "UserParameters"):
                text = action["Configuration"].get(key, "")
                text = re.sub(r"#\{[a-z]+@Diff.HEADLINE\}", "x" * HEADLINE_CHARACTERS, text)
                text = re.sub(r"#\{[a-z]+@Diff.REPORT_URL\}", link, text)
                text = re.sub(r"#\{codepipeline[^}]+\}", "x" * 36, text)
                assert len(text) <= 1000, (action["Name"], key)


def test_function_can_answer_only_the_gates(synthesis: Synthesis) -> None:
    [function] = synthesis.resources("AWS::Lambda::Function").values()
    role = function["Properties"]["Role"]["Fn::GetAtt"][0]
    granted = allowed(Template.from_json(synthesis.template), role)
    arn = "arn:aws:codepipeline:us-west-2:555566667777:trainyard"
    [answer], [state] = granted["codepipeline:PutApprovalResult"], granted["codepipeline:GetPipelineState"]
    assert sorted(answer["Resource"]) == sorted(f"{arn}/{stage}/{gate}" for stage in ENVIRONMENTS for gate in GATES)
    assert state["Resource"] == arn
    assert set(granted) == {
        *("codepipeline:GetPipelineState", "codepipeline:PutApprovalResult"),
        *("codepipeline:PutJobSuccessResult", "codepipeline:PutJobFailureResult"),
        *("logs:CreateLogStream", "logs:PutLogEvents", "sns:Publish", "kms:Decrypt", "kms:GenerateDataKey*"),
    }


def test_builds_cannot_answer_approvals(synthesis: Synthesis) -> None:
    for project in synthesis.resources("AWS::CodeBuild::Project").values():
        role = project["Properties"]["ServiceRole"]["Fn::GetAtt"][0]
        actions = [action for s in synthesis.statements(role) for action in listed(s["Action"])]
        assert not [action for action in actions if action.startswith(("codepipeline:", "lambda:", "iam:"))]


@pytest.mark.parametrize("stage", ENVIRONMENTS)
@pytest.mark.parametrize("step", ["Preflight", "Diff", "Validation"])
def test_step_role_assumes_one_role_of_its_environment(synthesis: Synthesis, stage: str, step: str) -> None:
    role = synthesis.project_of(stage, step)[1]["ServiceRole"]["Fn::GetAtt"][0]
    assert synthesis.template["Resources"][role]["Properties"]["RoleName"] == f"trainyard-{stage}-{step.lower()}"
    statements = list(synthesis.statements(role))
    [assumed] = [s["Resource"] for s in statements if "sts:AssumeRole" in listed(s["Action"])]
    assert assumed == f"arn:aws:iam::{ENVIRONMENTS[stage]}:role/{stage}-{step.lower()}-us-west-2"
    for statement in statements:
        assert "*" not in json.dumps(statement["Action"])
        for resource in listed(statement["Resource"]):
            assert resource != "*"


BUILDS = [
    ("Build", "Synth"),
    *((stage, step) for stage in ENVIRONMENTS for step in ("Preflight", "Diff", "Validation")),
]


@pytest.mark.parametrize(("stage", "step"), BUILDS)
def test_step_writes_only_its_own_artifact(synthesis: Synthesis, stage: str, step: str) -> None:
    role = synthesis.project_of(stage, step)[1]["ServiceRole"]["Fn::GetAtt"][0]
    granted = [s["Resource"] for s in synthesis.statements(role) if "s3:PutObject" in listed(s["Action"])]
    [[bucket, pattern]] = [resource["Fn::Join"][1] for resource in granted]
    assert bucket["Fn::GetAtt"][0].startswith("ArtifactsBucket")

    def writes(artifact: str) -> bool:
        # As CodePipeline has it: both names shortened, then letters at random.
        return fnmatch.fnmatchcase(f"/{'trainyard'[:20]}/{artifact[:10]}/aB3dE5g", pattern)

    [own] = [artifact["Name"] for artifact in synthesis.action(stage, step)["OutputArtifacts"]]
    assert writes(own)
    read = {a["Name"] for actions in synthesis.stages.values() for x in actions for a in x.get("InputArtifacts", [])}
    assert read == {"Synth_Output", "example_trainyard_Source"}
    assert {artifact for artifact in read if writes(artifact)} == ({"Synth_Output"} if step == "Synth" else set())


@pytest.mark.parametrize("stage", ENVIRONMENTS)
def test_target_role_trusts_one_step_role(synthesis: Synthesis, stage: str) -> None:
    template = synthesis.stage_templates(stage)["promotion"]
    roles = {
        item["Properties"]["RoleName"]: item["Properties"]["AssumeRolePolicyDocument"]["Statement"]
        for item in template["Resources"].values()
        if item["Type"] == "AWS::IAM::Role"
    }
    assert set(roles) == {f"{stage}-{purpose}-us-west-2" for purpose in PURPOSES}
    for purpose in PURPOSES:
        [trust] = roles[f"{stage}-{purpose}-us-west-2"]
        trusted = f"arn:aws:iam::555566667777:role/trainyard-{stage}-{purpose}"
        assert trust["Condition"] == {"ArnEquals": {"aws:PrincipalArn": trusted}}
        assert trust["Principal"] == {"AWS": "arn:aws:iam::555566667777:root"}


def granted(template: dict[str, Any], policy: str) -> dict[str, list[Any]]:
    [document] = [
        item["Properties"]["PolicyDocument"]
        for key, item in template["Resources"].items()
        if item["Type"] == "AWS::IAM::Policy" and key.startswith(f"Access{policy}")
    ]
    found: dict[str, list[Any]] = {}
    for statement in document["Statement"]:
        for action in listed(statement["Action"]):
            found.setdefault(action, []).extend(listed(statement["Resource"]))
    return found


def test_preflight_permissions(synthesis: Synthesis) -> None:
    found = granted(synthesis.stage_templates("dev")["promotion"], "Preflight")
    assert set(found) == {*PREFLIGHT, "sts:AssumeRole"} - {"s3:ListBucket"}, "dev names no bucket"
    assert found["sts:AssumeRole"] == ["arn:aws:iam::222233334444:role/PCAPIUserRole-*"]
    assert not [a for a in found if not re.match(r".*:(Describe|List|Get|AssumeRole)", a)]


@pytest.mark.parametrize("stage", ENVIRONMENTS)
def test_preflight_assumes_only_its_environments_api_role(synthesis: Synthesis, stage: str) -> None:
    [statement] = statements_of(synthesis.stage_templates(stage)["promotion"], "DryRun")
    assert statement["Condition"] == {"StringEquals": {"iam:ResourceTag/trainyard:environment": stage}}
    manifest = json.loads((synthesis.folder / f"assembly-{stage}" / "manifest.json").read_text("utf-8"))
    [api] = [x for x in manifest["artifacts"].values() if x.get("displayName") == f"{stage}/api"]
    # A stack's tags reach the roles of the stacks in it.
    assert api["properties"]["tags"]["trainyard:environment"] == stage


def test_existing_api_role_is_granted_by_its_arn(synthesis: Synthesis) -> None:
    environment = synthesis.promotion.targets[0].environment
    role = "arn:aws:iam::222233334444:role/PCAPIUserRole-shared"
    api = Api(url="https://abc.execute-api.us-west-2.amazonaws.com/prod", user_role_arn=role)
    cluster = environment.cluster.model_copy(update={"api": api})
    _, taken = grants(environment.model_copy(update={"cluster": cluster}))["preflight"]
    assert (taken.resource, taken.conditions) == (role, None)


def test_preflight_reads_only_the_buckets_that_the_file_names(synthesis: Synthesis) -> None:
    environment = synthesis.promotion.targets[0].environment
    [lustre] = environment.storage.lustre
    link = lustre.associations[0].model_copy(update={"bucket": "s3://acme-corpus"})
    buckets = environment.storage.buckets.model_copy(update={"name_prefix": "acme"})
    system = lustre.model_copy(update={"associations": (link,)})
    storage = environment.storage.model_copy(update={"buckets": buckets, "lustre": (system,)})
    found = grants(environment.model_copy(update={"storage": storage}))["preflight"]
    assert [grant.resource for grant in found if "s3:ListBucket" in grant.actions] == [
        "arn:aws:s3:::acme-corpus", "arn:aws:s3:::acme-*",
    ]  # fmt: skip


def test_diff_permissions(synthesis: Synthesis) -> None:
    stacks = "arn:aws:cloudformation:us-west-2:222233334444:stack/dev-*/*"
    assert granted(synthesis.stage_templates("dev")["promotion"], "Diff") == {
        "cloudformation:DescribeStacks": [stacks],
        "cloudformation:GetTemplate": [stacks],
    }


def test_validation_sends_commands_only_to_its_head_node(synthesis: Synthesis) -> None:
    template = synthesis.stage_templates("dev")["promotion"]
    found = granted(template, "Validation")
    assert set(found) == set(VALIDATION)
    assert found["ssm:SendCommand"] == [
        "arn:aws:ssm:us-west-2:222233334444:document/dev-cluster-*",
        "arn:aws:ec2:us-west-2:222233334444:instance/*",
    ]
    [statement] = statements_of(template, "HeadNode")
    assert statement["Condition"] == {
        "StringEquals": {
            "ssm:resourceTag/parallelcluster:cluster-name": "dev",
            "ssm:resourceTag/parallelcluster:node-type": "HeadNode",
        }
    }

"""People in the stacks: what a change of people touches, and what each persona may do, evaluated by ministack's IAM."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import settings
from stacks.deployment import compose
from tests.constructs.stacks_of import app_without_bundling
from trainyard.cluster_people import cluster_people

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / "local" / ".venv" / "bin" / "python"
ACCOUNT, REGION = "333344445555", "us-west-2"
pytestmark = pytest.mark.xdist_group("stacks-people")


@cache
def staging(people: str = "") -> dict[str, dict[str, Any]]:
    """The templates of staging's stacks, with another text of its people file."""
    environment = settings.load(ROOT / "environments" / "staging.yaml", people_text=people or None)
    return templates(environment)


def templates(environment: settings.Environment) -> dict[str, dict[str, Any]]:
    app = app_without_bundling()
    compose(app, environment)
    return {stack.id: stack.template for stack in app.synth().stacks}


def resources(templates: dict[str, dict[str, Any]], stack: str, kind: str) -> list[dict[str, Any]]:
    found = templates[stack]["Resources"].values()
    return [item["Properties"] for item in found if item["Type"] == kind]


def test_a_change_of_people_changes_neither_the_cluster_nor_the_bundle() -> None:
    before, after = staging(), staging("users: [{name: linus, uid: 10009, keys: []}]\n")
    for kind in ("Custom::ParallelCluster", "AWS::IAM::ManagedPolicy", "AWS::SSM::Document", "AWS::SSM::Parameter"):
        assert resources(before, "cluster", kind) == resources(after, "cluster", kind)
        assert resources(before, "cluster", kind)
    changed = {
        name
        for name, item in before["cluster"]["Resources"].items()
        if item != after["cluster"]["Resources"].get(name) and item["Type"] != "AWS::CDK::Metadata"
    }
    assert {before["cluster"]["Resources"][name]["Type"] for name in changed} == {"Custom::CDKBucketDeployment"}
    assert {stack for stack in before if before[stack] != after[stack]} == {"cluster", "storage"}


def test_quotas_of_homes() -> None:
    [volume] = resources(staging(), "storage", "AWS::FSx::Volume")
    assert volume["OpenZFSConfiguration"]["UserAndGroupQuotas"] == [
        {"Type": "USER", "Id": uid, "StorageCapacityQuotaGiB": 20} for uid in (10000, 10001)
    ]


def test_without_people_there_is_nothing_of_them() -> None:
    environment = settings.load(ROOT / "environments" / "dev.yaml")
    assert cluster_people(environment) is None
    text = json.dumps(templates(environment)["cluster"])
    assert "people" not in text.lower()
    assert "Persona" not in text
    assert "SSMSessionRunAs" not in text


def test_the_document_takes_two_requests() -> None:
    documents = [item["Content"] for item in resources(staging(), "cluster", "AWS::SSM::Document")]
    [people] = [item for item in documents if "Users, groups" in item["description"]]
    assert people["parameters"]["Request"]["allowedValues"] == ["plan", "apply"]
    [session] = [item for item in documents if item.get("sessionType")]
    assert session["inputs"]["runAsEnabled"] is True
    assert session["inputs"]["runAsDefaultUser"] == ""


# --- what personas may do ---

EVALUATE = """
import json, sys
from ministack.core.iam_evaluator import EvalContext, evaluate, parse_policy_document
given = json.load(sys.stdin)
answers = []
for policy, action, resource, keys in given:
    account = "333344445555"
    role = f"arn:aws:iam::{account}:role/x"
    context = EvalContext(role, "AssumedRole", account, action, resource, "us-west-2")
    context.service_context.update({key.lower(): value for key, value in keys.items()})
    answers.append(evaluate(context, [parse_policy_document(policy)]).decision == "Allow")
print(json.dumps(answers))
"""
DOCUMENT, SESSION = "staging-cluster-People-A", "staging-cluster-Session-B"


def resolved(value: Any, variables: dict[str, str]) -> Any:  # noqa: ANN401 - a part of a policy
    """A part of a policy with references and variables replaced; what has no value can match nothing."""
    if isinstance(value, dict) and "Fn::Join" in value:
        return "".join(resolved(part, variables) for part in value["Fn::Join"][1])
    if isinstance(value, dict) and "Fn::ImportValue" in value:
        return "arn:aws:s3:::assets"
    if isinstance(value, dict) and "Ref" in value:
        return SESSION if "Session" in value["Ref"] else value["Ref"]
    if isinstance(value, dict):
        return {key: resolved(item, variables) for key, item in value.items()}
    if isinstance(value, list):
        return [resolved(item, variables) for item in value]
    for name, text in variables.items():
        value = value.replace(f"${{{name}}}", text)
    return value.replace("${", "\x00{")


def node(kind: str, cluster: str = "staging", key: str = "ssm:resourceTag", **more: str) -> dict[str, str]:
    tags = {f"{key}/parallelcluster:cluster-name": cluster, f"{key}/parallelcluster:node-type": kind}
    return {**tags, **more}


def arn(service: str, rest: str) -> str:
    return f"arn:aws:{service}:{REGION}:{ACCOUNT}:{rest}"


INSTANCE, PARAMETER = arn("ec2", "instance/i-1"), arn("ssm", "parameter/trainyard/staging/people/document")
CHECKED = {"ssm:SessionDocumentAccessCheck": "true"}
SSH = {"key": "aws:ResourceTag"}
SEND_KEY = "ec2-instance-connect:SendSSHPublicKey"
# Persona, action, resource, keys of the request, whether it is allowed; the caller's tag is ada.
CASES: list[tuple[str, str, str, dict[str, str], bool]] = [
    ("user", "ssm:StartSession", INSTANCE, node("HeadNode", **CHECKED), True),
    ("user", "ssm:StartSession", INSTANCE, node("LoginNode", **CHECKED), True),
    ("user", "ssm:StartSession", INSTANCE, node("Compute", **CHECKED), False),
    ("user", "ssm:StartSession", INSTANCE, node("HeadNode", "prod", **CHECKED), False),
    ("user", "ssm:StartSession", INSTANCE, node("HeadNode", **{"ssm:SessionDocumentAccessCheck": "false"}), False),
    ("user", "ssm:StartSession", arn("ssm", f"document/{SESSION}"), {}, True),
    ("user", "ssm:StartSession", f"arn:aws:ssm:{REGION}::document/AWS-StartSSHSession", {}, True),
    ("user", "ssm:StartSession", f"arn:aws:ssm:{REGION}::document/AWS-StartInteractiveCommand", {}, False),
    ("user", "ssm:StartSession", arn("ssm", "document/SSM-SessionManagerRunShell"), {}, False),
    ("user", "ssm:TerminateSession", arn("ssm", "session/AROA:ada-0123"), {}, True),
    ("user", "ssm:TerminateSession", arn("ssm", "session/AROA:grace-0123"), {}, False),
    ("user", SEND_KEY, INSTANCE, node("LoginNode", **SSH, **{"ec2:osuser": "ada"}), True),
    ("user", SEND_KEY, INSTANCE, node("LoginNode", **SSH, **{"ec2:osuser": "grace"}), False),
    ("user", SEND_KEY, INSTANCE, node("LoginNode", **SSH, **{"ec2:osuser": "ubuntu"}), False),
    ("user", "ssm:SendCommand", INSTANCE, node("HeadNode"), False),
    ("user", "ssm:GetParameter", PARAMETER, {}, False),
    ("user", "s3:PutObject", "arn:aws:s3:::assets/cluster/people.json", {}, False),
    ("operator", "ssm:SendCommand", INSTANCE, node("HeadNode"), True),
    ("operator", "ssm:SendCommand", INSTANCE, node("LoginNode"), False),
    ("operator", "ssm:SendCommand", INSTANCE, node("HeadNode", "prod"), False),
    ("operator", "ssm:SendCommand", arn("ssm", f"document/{DOCUMENT}"), {}, True),
    ("operator", "ssm:SendCommand", f"arn:aws:ssm:{REGION}::document/AWS-RunShellScript", {}, False),
    ("operator", "ssm:GetParameter", PARAMETER, {}, True),
    ("operator", "ssm:GetParameter", arn("ssm", "parameter/trainyard/prod/people/document"), {}, False),
    ("operator", "s3:PutObject", "arn:aws:s3:::assets/cluster/people.json", {}, False),
    ("operator", "ssm:StartSession", f"arn:aws:ssm:{REGION}::document/AWS-StartInteractiveCommand", {}, False),
    ("administrator", "s3:PutObject", "arn:aws:s3:::assets/cluster/people.json", {}, True),
    ("administrator", "s3:PutObject", "arn:aws:s3:::assets/cluster/current.json", {}, False),
    ("administrator", "ssm:StartSession", f"arn:aws:ssm:{REGION}::document/AWS-StartInteractiveCommand", {}, True),
    ("administrator", "ec2:TerminateInstances", INSTANCE, node("HeadNode"), False),
    ("administrator", "iam:CreateRole", f"arn:aws:iam::{ACCOUNT}:role/x", {}, False),
]


def policy_of(persona: str, variables: dict[str, str]) -> dict[str, Any]:
    found = resources(staging(), "cluster", "AWS::IAM::ManagedPolicy")
    [policy] = [item for item in found if item["Description"].startswith(f"Trainyard staging: {persona} ")]
    document: dict[str, Any] = resolved(policy["PolicyDocument"], variables)
    return document


def decisions(cases: list[tuple[str, str, str, dict[str, str], bool]], variables: dict[str, str]) -> list[bool]:
    asked = [(policy_of(persona, variables), *rest[:3]) for persona, *rest in cases]
    done = subprocess.run([PYTHON, "-c", EVALUATE], input=json.dumps(asked), capture_output=True, text=True, check=True)
    answers: list[bool] = json.loads(done.stdout.splitlines()[-1])
    return answers


def test_what_each_persona_may_do() -> None:
    found = decisions(CASES, {"aws:userid": "AROA:ada", "aws:PrincipalTag/SSMSessionRunAs": "ada"})
    wrong = [case for case, allowed in zip(CASES, found, strict=True) if allowed is not case[4]]
    assert wrong == []


def test_without_the_tag_nobody_sends_keys() -> None:
    cases = [case for case in CASES if case[1] == SEND_KEY]
    assert decisions(cases, {"aws:userid": "AROA:ada"}) == [False] * len(cases)

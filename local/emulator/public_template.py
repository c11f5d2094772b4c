"""Puts templates of the ParallelCluster API into the emulated S3, where AWS has the public ones.

AWS's template is at https://<region>-aws-parallelcluster.s3.<region>.amazonaws.com/parallelcluster/<version>/api/
parallelcluster-api.yaml. It runs the API in a Lambda function with a layer that only AWS has. Our template has its
parameters, outputs, role names and policies, as recorded in parallelcluster/facts.

Our template creates a REST API of API Gateway with the same authorization: AWS_IAM on every method, and a resource
policy that denies everyone but the API user role. Its methods call the genuine API code, which runs on loopback with
the role of the Lambda function.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ministack.core.responses import get_region
from ministack.services import s3

TEMPLATE = Path(__file__).parent / "parallelcluster-api.yaml"
FACTS = Path(__file__).parents[2] / "parallelcluster" / "facts"
FUNCTION_ROLE = "ParallelClusterLambdaRole"


def install(version: str, api_urls: Mapping[str, str], gateway_url: str) -> None:
    """Put the templates where the public ones are, in the current region.

    `api_urls` is where the genuine API of each account listens, `gateway_url` where the emulator does.
    """
    facts = _facts("api")
    for later in _facts("later_releases")["facts"]:
        facts["parameters"] |= later.get("parameters", {})
    body = TEMPLATE.read_text()
    values = {key.upper(): json.dumps(value) for key, value in facts.items()}
    values["APIS"] = json.dumps({account: {"Url": url} for account, url in api_urls.items()})
    for name, value in (values | {"VERSION": version, "GATEWAY_URL": gateway_url}).items():
        body = body.replace(f"__{name}__", value)
    bucket = f"{get_region()}-aws-parallelcluster"
    s3._create_bucket(bucket, b"")
    files = {"api/parallelcluster-api.yaml": body, "templates/policies/policies.yaml": json.dumps(_policies())}
    headers = {"content-type": "application/x-yaml"}
    for name, text in files.items():
        s3._put_object(bucket, f"parallelcluster/{version}/{name}", text.encode(), headers)


def _facts(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FACTS / f"{name}.json").read_text())
    return found


def _policies() -> dict[str, Any]:
    """The template of the function's role, from the recorded statements and those that later releases added."""
    facts = _facts("policies")
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "lambda.amazonaws.com"}}
    role = {**facts["role"], "AssumeRolePolicyDocument": _document([trust])}
    resources: dict[str, Any] = {FUNCTION_ROLE: {"Type": "AWS::IAM::Role", "Properties": role}}
    added = [statement for later in _facts("later_releases")["facts"] for statement in later.get("statements", [])]
    policies = facts["policies"] | {"Later": {"condition": None, "roles": True, "statements": added}}
    for name, policy in policies.items():
        properties: dict[str, Any] = {"PolicyDocument": _document(policy["statements"])}
        if policy["roles"]:
            properties["Roles"] = [{"Ref": FUNCTION_ROLE}]
        resources[name] = {"Type": "AWS::IAM::ManagedPolicy", "Properties": properties}
        if policy["condition"]:
            resources[name]["Condition"] = policy["condition"]
    outputs = {f"{FUNCTION_ROLE}Arn": {"Value": {"Fn::GetAtt": [FUNCTION_ROLE, "Arn"]}}}
    template = {"Parameters": facts["parameters"], "Conditions": facts["conditions"], "Resources": resources}
    return {"AWSTemplateFormatVersion": "2010-09-09", **template, "Outputs": outputs}


def _document(statements: list[dict[str, Any]]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": statements}

"""What a deployment needs of the account before it begins: the bootstrap stack, and the caller's permissions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from botocore.exceptions import ClientError

from ops.preflight.aws import Aws, Denied, code_of
from ops.problem import Problem
from settings import Environment
from settings.regions import partition

_ROLE = re.compile(r"arn:\$\{AWS::Partition\}:iam::\d+:role/[\w+=,.@/-]+")


def require_bootstrap(aws: Aws, environment: Environment, assembly: Path) -> str:
    """Return if the region is bootstrapped for this assembly; returns why that is not known, if so.

    The CDK CLI compares the same parameter with the same number of the assembly.

    Raises:
        Problem: the region is not bootstrapped, or by too old a CDK.
    """
    artifacts = json.loads((assembly / "manifest.json").read_text("utf-8"))["artifacts"].values()
    wanted = [item["properties"] for item in artifacts if item["type"] == "cdk:asset-manifest"]
    needed = max(int(item["requiresBootstrapStackVersion"]) for item in wanted)
    parameter = next(item["bootstrapStackVersionSsmParameter"] for item in wanted)
    try:
        found = int(aws.call("ssm", "get_parameter", Name=parameter)["Parameter"]["Value"])
    except Denied as denied:
        return f"the version of the bootstrap stack is not known: {denied}"
    except ClientError as error:
        if code_of(error) != "ParameterNotFound":
            raise
        found = 0
    if found < needed:
        have = f"version {found}, and version {needed} is needed" if found else f"no bootstrap stack ({parameter})"
        raise Problem(
            f"{environment.account} has {have} in {environment.region}. Once for each account and region, with "
            f"administrator rights:\n  node_modules/.bin/cdk bootstrap aws://{environment.account}/{environment.region}"
        )
    return ""


def missing(aws: Aws, environment: Environment, assembly: Path, actions: Sequence[str]) -> tuple[list[str], str]:
    """The permissions that the caller's policies do not give, and why that is not known, if so.

    IAM's policy simulator answers. `actions` are asked for `*`: a permission on some resources only counts as missing.
    """
    caller = str(aws.call("sts", "get_caller_identity")["Arn"])
    if caller.endswith(":root"):
        return [], ""  # the root user may do everything
    try:
        source = _policy_source(aws, caller)
        if not source:
            return [], f"IAM simulates the policies of users and roles only, not of {caller}"
        asked = [("sts:AssumeRole", role) for role in bootstrap_roles(assembly, environment.region)]
        found = [line for action, role in asked for line in _denied(aws, source, [action], role)]
        return [*found, *_denied(aws, source, actions, "*")], ""
    except (Denied, ClientError) as error:
        return [], f"whether {caller} has every permission is not known: {error}"


def bootstrap_roles(assembly: Path, region: str) -> list[str]:
    """The roles that the CDK CLI assumes to deploy an assembly."""
    files = [assembly / "manifest.json", *assembly.glob("*.assets.json")]
    found = {role for file in files for role in _ROLE.findall(file.read_text("utf-8")) if "cfn-exec" not in role}
    return sorted(role.replace("${AWS::Partition}", partition(region)) for role in found)


def _policy_source(aws: Aws, caller: str) -> str:
    """The user or role whose policies count; the ARN of a session does not have the path of its role."""
    kind, _, name = caller.split(":", 5)[5].partition("/")
    if kind == "assumed-role":
        return str(aws.call("iam", "get_role", RoleName=name.partition("/")[0])["Role"]["Arn"])
    return caller if kind == "user" else ""


def _denied(aws: Aws, source: str, actions: Sequence[str], resource: str) -> Iterator[str]:
    results = aws.items(
        *("iam", "simulate_principal_policy", "EvaluationResults"),
        PolicySourceArn=source,
        ActionNames=list(actions),
        ResourceArns=[resource],
    )
    for result in results:
        if result["EvalDecision"] != "allowed":
            yield result["EvalActionName"] + ("" if resource == "*" else f" on {resource}")

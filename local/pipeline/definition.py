"""The deployed pipeline: its actions, read from the template, and sessions of its roles."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import botocore.session
from botocore.exceptions import ClientError
from botocore.loaders import create_loader

from local.control import Control, InstructionRefused
from local.emulator.launch import Emulator
from ops.intrinsics import Resolver

PIPELINE_TYPE = "AWS::CodePipeline::Pipeline"
_LOADER = create_loader()


class ActionFailed(Exception):
    """An action failed; the message is the reason."""


@dataclass(frozen=True)
class Action:
    """One action; `configuration` may hold variables, `inputs` and `outputs` are names of artifacts."""

    key: str
    provider: str
    order: int
    role_arn: str
    namespace: str
    configuration: dict[str, str]
    inputs: list[str]
    outputs: list[str]

    @property
    def stage(self) -> str:
        """The first part of the key, STAGE/ACTION."""
        return self.key.partition("/")[0]


@dataclass(frozen=True)
class Pipeline:
    """A deployed pipeline, its actions in the order in which they run.

    Attributes:
        state: folder of artifacts and logs.
        skip: commands of steps that are left out.
        approved: keys of approvals that are given.
    """

    name: str
    role_arn: str
    bucket: str
    actions: list[Action]
    emulator: Emulator
    state: Path
    skip: list[str]
    approved: set[str] = field(default_factory=set)

    def service_session(self, role_arn: str, service: str, resource: str) -> boto3.Session:
        """A role that a service assumes for a resource. Raises ActionFailed where the trust policy refuses it."""
        source = f"arn:aws:{service}:{self.emulator.region}:{self.emulator.account}:{resource}"
        try:
            given = Control(self.emulator).session(role_arn, f"{service}.amazonaws.com", source)
        except InstructionRefused as refused:
            raise ActionFailed(str(refused)) from refused
        return session_with(given["key"], given["secret"], given["token"], self.emulator.region)

    def session(self, role_arn: str = "") -> boto3.Session:
        """The pipeline's role, or a role that it assumes. Raises ActionFailed where IAM refuses it."""
        session = self.service_session(self.role_arn, "codepipeline", self.name)
        return assume(session, role_arn) if role_arn else session

    def artifact(self, name: str) -> Path:
        """Folder of an artifact."""
        return self.state / "artifacts" / name


class _References(Resolver):
    def __init__(self, values: dict[str, str]) -> None:
        self._values = values

    def reference(self, name: str) -> str:
        return self._values[name]

    def attribute(self, logical_id: str, name: str) -> str:  # noqa: ARG002 - in a pipeline only the ARNs of roles
        return f"arn:aws:iam::{self._values['AWS::AccountId']}:role/{self._values[logical_id]}"

    def imported(self, export: str) -> Any:  # noqa: ANN401 - JSON
        raise ActionFailed(f"the pipeline's template imports {export}, which no stack here exports")


def assume(session: boto3.Session, role_arn: str) -> boto3.Session:
    """A role that another one assumes. Raises ActionFailed where IAM refuses it."""
    try:
        given = session.client("sts").assume_role(RoleArn=role_arn, RoleSessionName="promotion")["Credentials"]
    except ClientError as error:
        raise ActionFailed(f"{role_arn} cannot be assumed: {error}") from error
    return session_with(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"], session.region_name)


def session_with(key: str, secret: str, token: str | None, region: str) -> boto3.Session:
    """A session with these keys. All share a loader: each of its own would parse botocore's files again."""
    core = botocore.session.Session()
    core.register_component("data_loader", _LOADER)
    return boto3.Session(key, secret, token, region, core)


def read(emulator: Emulator, stack: str, state: Path, skip: list[str]) -> Pipeline:
    """The pipeline of a deployed stack."""
    client = session_with(emulator.account, "local", None, emulator.region).client("cloudformation")
    template: Any = client.get_template(StackName=stack)["TemplateBody"]
    pages = client.get_paginator("list_stack_resources").paginate(StackName=stack)
    resources = [item for page in pages for item in page["StackResourceSummaries"]]
    values = {item["LogicalResourceId"]: item["PhysicalResourceId"] for item in resources}
    values |= {"AWS::AccountId": emulator.account, "AWS::Region": emulator.region, "AWS::Partition": "aws"}
    found = [item["Properties"] for item in template["Resources"].values() if item["Type"] == PIPELINE_TYPE]
    declared = _References(values).resolve(found[0])
    actions: list[Action] = []
    for stage in declared["Stages"]:
        actions += sorted((_action(stage["Name"], item) for item in stage["Actions"]), key=lambda action: action.order)
    bucket = declared["ArtifactStore"]["Location"]
    return Pipeline(declared["Name"], declared["RoleArn"], bucket, actions, emulator, state, skip)


def _action(stage: str, declared: dict[str, Any]) -> Action:
    kind = declared["ActionTypeId"]
    return Action(
        key=f"{stage}/{declared['Name']}",
        provider=kind["Provider"],
        # The function that decides an approval has the same run order, and must come first.
        order=2 * int(declared["RunOrder"]) + (kind["Category"] == "Approval"),
        role_arn=declared["RoleArn"],
        namespace=declared.get("Namespace", ""),
        configuration=declared["Configuration"],
        inputs=[item["Name"] for item in declared.get("InputArtifacts", [])],
        outputs=[item["Name"] for item in declared.get("OutputArtifacts", [])],
    )

"""CloudFormation actions: change sets made and executed with the role of the action, in the account of that role."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from local.pipeline.artifacts import Artifacts
from local.pipeline.definition import Pipeline
from local.pipeline.problem import ActionFailed
from local.pipeline.roles import CODEPIPELINE, Roles, Session

MODES = ("CHANGE_SET_REPLACE", "CHANGE_SET_EXECUTE", "CREATE_UPDATE", "DELETE_ONLY")
_POLL_S = 0.5
_WAIT_S = 45 * 60
_NOTHING = ("didn't contain changes", "No updates are to be performed")
_GONE = ("DELETE_COMPLETE", "REVIEW_IN_PROGRESS")
_REASONS = 3


@dataclass(frozen=True)
class Deployer:
    """What the CloudFormation actions of a walk have in common."""

    roles: Roles
    pipeline: Pipeline
    artifacts: Artifacts
    execution: str

    def run(self, configuration: Mapping[str, str], actor: Session, region: str = "") -> dict[str, str]:
        """Carry out one action: the outputs of its stack, which are its variables.

        Raises:
            ActionFailed: CloudFormation refuses, or the stack does not get there, and why.
        """
        mode = configuration["ActionMode"]
        client = actor.client("cloudformation", region)
        name = configuration["StackName"]
        try:
            if mode == "CHANGE_SET_REPLACE":
                return self._replace_change_set(client, name, configuration)
            if mode == "CHANGE_SET_EXECUTE":
                return self._execute_change_set(client, name, configuration["ChangeSetName"])
            if mode == "CREATE_UPDATE":
                return self._create_or_update(client, name, configuration)
            if mode == "DELETE_ONLY":
                if _status(client, name) not in _GONE:
                    client.delete_stack(StackName=name, **_role(configuration))
                    _settled(client, name, ("DELETE_COMPLETE",))
                return {}
        except ClientError as error:
            raise ActionFailed(str(error)) from error
        raise ActionFailed(f"ActionMode is {mode}; this executor has {', '.join(MODES)}")

    def _replace_change_set(self, client: Any, name: str, configuration: Mapping[str, str]) -> dict[str, str]:  # noqa: ANN401
        change_set = configuration["ChangeSetName"]
        new = _status(client, name) in _GONE
        if not new or _status(client, name) == "REVIEW_IN_PROGRESS":
            client.delete_change_set(StackName=name, ChangeSetName=change_set)
        client.create_change_set(
            StackName=name,
            ChangeSetName=change_set,
            ChangeSetType="CREATE" if new else "UPDATE",
            **self._asked(name, configuration),
        )
        end = time.monotonic() + _WAIT_S
        while time.monotonic() < end:
            said = client.describe_change_set(StackName=name, ChangeSetName=change_set)
            if said["Status"] == "CREATE_COMPLETE":
                return {}
            if said["Status"] == "FAILED":
                if any(words in said.get("StatusReason", "") for words in _NOTHING):
                    return {}
                raise ActionFailed(f"change set {change_set} of {name}: {said.get('StatusReason', 'no reason given')}")
            time.sleep(_POLL_S)
        raise ActionFailed(f"change set {change_set} of {name} was not made within {_WAIT_S / 60:.0f} minutes")

    def _execute_change_set(self, client: Any, name: str, change_set: str) -> dict[str, str]:  # noqa: ANN401
        said = client.describe_change_set(StackName=name, ChangeSetName=change_set)
        if said["Status"] == "FAILED" and any(words in said.get("StatusReason", "") for words in _NOTHING):
            client.delete_change_set(StackName=name, ChangeSetName=change_set)
            return _outputs(client, name)
        client.execute_change_set(StackName=name, ChangeSetName=change_set)
        _settled(client, name, ("CREATE_COMPLETE", "UPDATE_COMPLETE"))
        return _outputs(client, name)

    def _create_or_update(self, client: Any, name: str, configuration: Mapping[str, str]) -> dict[str, str]:  # noqa: ANN401
        asked = self._asked(name, configuration)
        if _status(client, name) in _GONE:
            client.create_stack(StackName=name, **asked)
        else:
            try:
                client.update_stack(StackName=name, **asked)
            except ClientError as error:
                if not any(words in str(error) for words in _NOTHING):
                    raise
                return _outputs(client, name)
        _settled(client, name, ("CREATE_COMPLETE", "UPDATE_COMPLETE"))
        return _outputs(client, name)

    def _asked(self, name: str, configuration: Mapping[str, str]) -> dict[str, Any]:
        given = self._file(configuration["TemplateConfiguration"]) if "TemplateConfiguration" in configuration else None
        settings = json.loads(given.read_text()) if given else {}
        parameters = {**settings.get("Parameters", {}), **json.loads(configuration.get("ParameterOverrides", "{}"))}
        return {
            "TemplateURL": self._uploaded(name, self._file(configuration["TemplatePath"])),
            "Capabilities": [item for item in configuration.get("Capabilities", "").split(",") if item],
            "Parameters": [{"ParameterKey": key, "ParameterValue": str(item)} for key, item in parameters.items()],
            "Tags": [{"Key": key, "Value": str(item)} for key, item in settings.get("Tags", {}).items()],
            **_role(configuration),
        }

    def _file(self, reference: str) -> Path:
        """The file that `ARTIFACT::PATH` names."""
        artifact, _, path = reference.partition("::")
        found = self.artifacts.path(artifact) / path
        if not found.is_file():
            raise ActionFailed(f"{reference} is not there")
        return found

    def _uploaded(self, name: str, template: Path) -> str:
        """The template in the pipeline's bucket: one in the request itself may have 51,200 bytes."""
        service = self.roles.of_service(self.pipeline.role_arn, CODEPIPELINE, self.pipeline.arn)
        key = f"{self.pipeline.name}/{self.execution}/{name}.template.json"
        try:
            service.client("s3").put_object(Bucket=self.pipeline.bucket, Key=key, Body=template.read_bytes())
        except ClientError as error:
            raise ActionFailed(f"the pipeline's role cannot write to {self.pipeline.bucket}: {error}") from error
        return f"https://{self.pipeline.bucket}.s3.{self.roles.world.region}.amazonaws.com/{key}"


def _role(configuration: Mapping[str, str]) -> dict[str, str]:
    return {"RoleARN": configuration["RoleArn"]} if configuration.get("RoleArn") else {}


def _status(client: Any, name: str) -> str:  # noqa: ANN401 - a boto3 client
    try:
        return str(client.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"])
    except ClientError as error:
        if "does not exist" in str(error):
            return "DELETE_COMPLETE"
        raise


def _settled(client: Any, name: str, wanted: tuple[str, ...]) -> None:  # noqa: ANN401 - a boto3 client
    end = time.monotonic() + _WAIT_S
    while time.monotonic() < end:
        status = _status(client, name)
        if not status.endswith("_IN_PROGRESS"):
            if status in wanted:
                return
            raise ActionFailed(f"stack {name} is {status}: {_reasons(client, name)}")
        time.sleep(_POLL_S)
    raise ActionFailed(f"stack {name} was still at work after {_WAIT_S / 60:.0f} minutes")


def _reasons(client: Any, name: str) -> str:  # noqa: ANN401 - a boto3 client
    """What failed first, in the latest operation, by CloudFormation's own words."""
    events = client.describe_stack_events(StackName=name)["StackEvents"]
    found = [
        f"{event['LogicalResourceId']}: {event['ResourceStatusReason']}"
        for event in events
        if event["ResourceStatus"].endswith("_FAILED") and event.get("ResourceStatusReason")
    ]
    return "; ".join(found[::-1][:_REASONS]) or "no event says why"


def _outputs(client: Any, name: str) -> dict[str, str]:  # noqa: ANN401 - a boto3 client
    listed = client.describe_stacks(StackName=name)["Stacks"][0].get("Outputs", [])
    return {item["OutputKey"]: item["OutputValue"] for item in listed}

"""The stacks of a deployment, synthesized ones and those that CloudFormation has, and references between resources."""

from __future__ import annotations

import copy
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from ops.intrinsics import Resolver
from ops.problem import Problem

if TYPE_CHECKING:
    from types_boto3_cloudformation import CloudFormationClient

# No template is deployed. "" is for a stack that does not exist.
EMPTY = ("", "REVIEW_IN_PROGRESS", "DELETE_COMPLETE", "ROLLBACK_COMPLETE")
# The first creation failed: no change set can update the stack; it must be deleted.
_FAILED = ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED")


@dataclass(frozen=True)
class Stack:
    """One stack. `id` is its construct id, `name` its name in CloudFormation, `account` empty where it is not known."""

    id: str
    name: str
    region: str
    template: Mapping[str, Any]
    account: str = ""

    @property
    def resources(self) -> Mapping[str, Mapping[str, Any]]:
        found: Mapping[str, Mapping[str, Any]] = self.template.get("Resources", {})
        return found


Stacks = Mapping[str, Stack]
"""By construct id."""
Resource = tuple[str, str]
"""Construct id of the stack, and logical id."""


class References(Resolver):
    """Writes a reference as text that names the resource, so that two sides can be compared: `${network.Subnet}`.

    Where CloudFormation replaces a resource, its id changes. References to the resources `replaced` have a mark, so
    that everything that refers to them differs too, in other stacks as well.
    """

    symbolic = True

    def __init__(self, stacks: Stacks, replaced: Collection[Resource] = ()) -> None:
        self._stacks = stacks
        self._replaced = replaced
        self._stack = ""
        self._exports = {
            name: (key, output["Value"])
            for key, stack in stacks.items()
            for output in stack.template.get("Outputs", {}).values()
            if isinstance(name := output.get("Export", {}).get("Name"), str)
        }

    def within(self, stack: str) -> References:
        """The same, for values of the template of `stack`."""
        other = copy.copy(self)
        other._stack = stack
        return other

    def reference(self, name: str) -> str:
        return self._name(name)

    def attribute(self, logical_id: str, name: str) -> str:
        return self._name(logical_id, f".{name}")

    def imported(self, export: str) -> str:
        if export not in self._exports:
            return f"${{{export}}}"
        stack, value = self._exports[export]
        return str(self.within(stack).resolve(value))

    def unresolved(self, function: str, argument: Any) -> str:  # noqa: ANN401 - JSON
        return json.dumps({function: self.resolve(argument)}, sort_keys=True)

    def _name(self, logical_id: str, attribute: str = "") -> str:
        if logical_id not in self._stacks[self._stack].resources:
            return f"${{{logical_id}{attribute}}}"
        mark = " (new)" if (self._stack, logical_id) in self._replaced else ""
        return f"${{{self._stack}.{logical_id}{attribute}{mark}}}"


def synthesized(folder: Path) -> dict[str, Stack]:
    """The stacks of a cloud assembly: an app's, or that of a stage in it. Raises Problem where the folder has none."""
    try:
        artifacts = json.loads((folder / "manifest.json").read_text("utf-8"))["artifacts"]
        stacks = [_stack(folder, *item) for item in artifacts.items() if item[1]["type"] == "aws:cloudformation:stack"]
        return {stack.id: stack for stack in stacks}
    except (OSError, ValueError, KeyError) as error:
        raise Problem(f"{folder} has no synthesized stacks: {type(error).__name__}: {error}") from error


def _stack(folder: Path, key: str, item: Mapping[str, Any]) -> Stack:
    properties = item["properties"]
    # In a stage, an artifact's key is its path and a hash; its display name is the path.
    path = item.get("displayName", key)
    account, region = item["environment"].removeprefix("aws://").split("/")
    return Stack(
        path.rpartition("/")[2],
        properties.get("stackName", key),
        region,
        json.loads((folder / properties["templateFile"]).read_text("utf-8")),
        account,
    )


def deployed(client: CloudFormationClient, wanted: Stacks) -> dict[str, Stack]:
    """The deployed stacks with the names of `wanted`; those that are not deployed or were never created are left out.

    Raises:
        Problem: CloudFormation cannot be read, or has a template that is not JSON.
    """
    return {
        key: replace(stack, template=template(client, stack.name))
        for key, stack in wanted.items()
        if _status(client, stack.name) not in (*EMPTY, *_FAILED)
    }


def never_created(client: CloudFormationClient, wanted: Stacks) -> dict[str, str]:
    """The status of each stack of `wanted` whose first creation failed, by its name. Raises Problem."""
    found = {stack.name: _status(client, stack.name) for stack in wanted.values()}
    return {name: status for name, status in found.items() if status in _FAILED}


def _status(client: CloudFormationClient, name: str) -> str:
    try:
        return client.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"]
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") == "ValidationError" and "does not exist" in str(error):
            return ""
        raise Problem(f"CloudFormation does not describe the stack {name}: {error}") from error
    except BotoCoreError as error:
        raise Problem(f"CloudFormation cannot be reached: {error}") from error


def template(client: CloudFormationClient, name: str) -> Mapping[str, Any]:
    """The template that a stack was deployed with. Raises Problem."""
    try:
        # boto3 parses JSON; it returns other text, and what some emulators answer, as a string.
        body: object = client.get_template(StackName=name, TemplateStage="Original").get("TemplateBody")
        template = json.loads(body) if isinstance(body, str) else body
    except (ClientError, BotoCoreError) as error:
        raise Problem(f"CloudFormation does not return the template of the stack {name}: {error}") from error
    except ValueError as error:
        raise Problem(f"The template of the stack {name} is not JSON, so not of this project.") from error
    if not isinstance(template, Mapping):
        raise Problem(f"CloudFormation has no template of the stack {name}.")
    return template

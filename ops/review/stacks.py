"""The stacks of a deployment: as synthesized, and as CloudFormation holds them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from ops.problem import Problem

if TYPE_CHECKING:
    from types_boto3_cloudformation import CloudFormationClient

# A stack in these states has nothing deployed.
_EMPTY = ("REVIEW_IN_PROGRESS", "DELETE_COMPLETE", "ROLLBACK_COMPLETE")


@dataclass(frozen=True)
class Stack:
    """One stack. `id` is its construct id, `name` its name in CloudFormation."""

    id: str
    name: str
    region: str
    template: Mapping[str, Any]

    @property
    def resources(self) -> Mapping[str, Mapping[str, Any]]:
        found: Mapping[str, Mapping[str, Any]] = self.template.get("Resources", {})
        return found


# The first creation failed: no change set updates such a stack, and only its deletion ends the state.
_FAILED = ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED")

Stacks = Mapping[str, Stack]
"""By construct id."""


def synthesized(folder: Path) -> dict[str, Stack]:
    """The stacks of a cloud assembly: an app's, or that of a stage inside of one.

    Raises:
        Problem: the folder holds none.
    """
    try:
        artifacts = json.loads((folder / "manifest.json").read_text("utf-8"))["artifacts"]
        stacks = {key: item for key, item in artifacts.items() if item["type"] == "aws:cloudformation:stack"}
        return {stack.id: stack for stack in (_stack(folder, key, item) for key, item in stacks.items())}
    except (OSError, ValueError, KeyError) as error:
        raise Problem(f"{folder} holds no synthesized stacks: {type(error).__name__}: {error}") from error


def _stack(folder: Path, key: str, item: Mapping[str, Any]) -> Stack:
    properties = item["properties"]
    # In a stage, an artifact's key is its path and a hash; its display name is the path.
    path = item.get("displayName", key)
    return Stack(
        path.rpartition("/")[2],
        properties.get("stackName", key),
        item["environment"].rpartition("/")[2],
        json.loads((folder / properties["templateFile"]).read_text("utf-8")),
    )


def deployed(client: CloudFormationClient, wanted: Stacks) -> dict[str, Stack]:
    """What stands under the names of the stacks `wanted`; those that are not deployed are left out.

    Raises:
        Problem: CloudFormation refuses to say, or holds a template that no CDK made.
    """
    found = {}
    for key, stack in wanted.items():
        template = _template(client, stack.name)
        if template is not None:
            found[key] = Stack(key, stack.name, stack.region, template)
    return found


def never_created(client: CloudFormationClient, wanted: Stacks) -> dict[str, str]:
    """The status of each stack of `wanted` whose first creation failed, by its name.

    Raises:
        Problem: CloudFormation refuses to say.
    """
    found = {stack.name: _status(client, stack.name) for stack in wanted.values()}
    return {name: status for name, status in found.items() if status in _FAILED}


def _status(client: CloudFormationClient, name: str) -> str:
    """Empty where there is no such stack."""
    with _asking(name):
        try:
            return client.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"]
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") == "ValidationError" and "does not exist" in str(error):
                return ""
            raise


@contextmanager
def _asking(name: str) -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        raise Problem(f"CloudFormation does not tell of the stack {name}: {error}") from error
    except BotoCoreError as error:
        raise Problem(f"CloudFormation cannot be asked about the stack {name}: {error}") from error


def _template(client: CloudFormationClient, name: str) -> Mapping[str, Any] | None:
    status = _status(client, name)
    if not status or status in _EMPTY:
        return None
    with _asking(name):
        body: object = client.get_template(StackName=name, TemplateStage="Original")["TemplateBody"]
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except ValueError as error:
            raise Problem(f"The template of the stack {name} is no JSON, so not made by this project.") from error
    if not isinstance(body, Mapping):
        raise Problem(f"CloudFormation holds no template for the stack {name}.")
    return body

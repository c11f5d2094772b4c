"""What a cloud assembly says of its stacks: where they go, and which of them is the pipeline."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from local.pipeline.problem import Problem

PIPELINE_TYPE = "AWS::CodePipeline::Pipeline"


@dataclass(frozen=True)
class Stack:
    """One stack: its name for the CDK CLI, its account and region, its template."""

    display_name: str
    account: str
    region: str
    template: Path


def stacks(folder: Path) -> list[Stack]:
    """Every stack of an assembly and of the assemblies in it."""
    found = []
    artifacts = json.loads((folder / "manifest.json").read_text())["artifacts"]
    for name, artifact in artifacts.items():
        properties = artifact.get("properties", {})
        if artifact["type"] == "cdk:cloud-assembly":
            found += stacks(folder / properties["directoryName"])
        elif artifact["type"] == "aws:cloudformation:stack":
            account, region = artifact["environment"].removeprefix("aws://").split("/")
            found.append(Stack(artifact.get("displayName", name), account, region, folder / properties["templateFile"]))
    return found


def pipeline_stack(found: list[Stack]) -> Stack:
    """The one stack with a pipeline in it.

    Raises:
        Problem: there is none, or more than one.
    """
    holders = [
        stack
        for stack in found
        if any(
            resource["Type"] == PIPELINE_TYPE
            for resource in json.loads(stack.template.read_text()).get("Resources", {}).values()
        )
    ]
    if len(holders) != 1:
        names = ", ".join(stack.display_name for stack in holders) or "none"
        raise Problem(f"One stack with a pipeline is wanted in the synthesized app; found: {names}")
    return holders[0]


def matching(found: list[Stack], patterns: tuple[str, ...]) -> list[Stack]:
    """The stacks whose name matches one of the patterns."""
    return [stack for stack in found if any(fnmatch(stack.display_name, pattern) for pattern in patterns)]

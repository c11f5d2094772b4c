"""Environments and their synthesized templates for the tests of constructs."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk.assertions import Template
from constructs import Construct

from settings.model import Environment
from stacks.api import ApiStack
from stacks.data_links import DataLinksStack
from stacks.images import ImagesStack
from stacks.network import NetworkStack
from stacks.observability import ObservabilityStack
from stacks.storage import StorageStack

_SMALLEST: dict[str, Any] = {
    "name": "unit",
    "account": "111122223333",
    "region": "eu-central-1",
    "network": {"zone": "euc1-az2"},
    "cluster": {"queues": [{"name": "cpu", "compute": [{"name": "c7i", "instance_types": ["c7i.xlarge"], "max": 1}]}]},
}


def environment(**parts: object) -> Environment:
    """The smallest environment, with the keys of the parts given put over its own."""
    given = deepcopy(_SMALLEST)
    for part, value in parts.items():
        given[part] = {**given.get(part, {}), **value} if isinstance(value, dict) else value
    return Environment.model_validate(given)


@dataclass(frozen=True)
class Stacks:
    """The templates of the stacks, and the assembly that they came from."""

    network: Template
    storage: Template
    data_links: Template
    images: Template
    assembly: cdk.cx_api.CloudAssembly


def app_without_bundling(folder: Path | None = None) -> cdk.App:
    return cdk.App(
        context={"aws:cdk:bundling-stacks": []},
        outdir=str(folder) if folder else None,
        builtin_cloud_formation_validation=False,
    )


def synthesize(**parts: object) -> Stacks:
    """Synthesize the four stacks of an environment as a deployment does, without bundling the functions."""
    app, settings = app_without_bundling(), environment(**parts)
    made = build(app, settings)
    assembly = app.synth()
    network, storage, data_links, images = (Template.from_stack(stack) for stack in made)
    return Stacks(network, storage, data_links, images, assembly)


def build(app: Construct, settings: Environment) -> tuple[cdk.Stack, cdk.Stack, cdk.Stack, cdk.Stack]:
    """Network, storage, data-link and image stacks."""
    network = NetworkStack(app, environment=settings)
    storage = StorageStack(app, environment=settings, network=network)
    data_links = DataLinksStack(app, environment=settings, storage=storage)
    return network, storage, data_links, ImagesStack(app, environment=settings)


def observability(app: Construct, settings: Environment) -> ObservabilityStack:
    network = NetworkStack(app, environment=settings)
    storage = StorageStack(app, environment=settings, network=network)
    api = ApiStack(app, environment=settings)
    return ObservabilityStack(app, environment=settings, network=network, storage=storage, api=api)


def only(template: Template, kind: str, **matching: object) -> Mapping[str, Any]:
    """The one resource of that type whose properties have these values."""
    found = [
        resource
        for resource in template.find_resources(kind).values()
        if all(resource.get("Properties", {}).get(key) == value for key, value in matching.items())
    ]
    assert len(found) == 1, f"{len(found)} resources of type {kind} with {matching}"
    return found[0]


def listed(value: Any) -> list[Any]:  # noqa: ANN401 - JSON
    return value if isinstance(value, list) else [value]


def allowed(template: Template, role: str | None = None) -> dict[str, list[dict[str, Any]]]:
    """All statements that allow an action, by action: of the role with that logical id, or of every role."""
    found: dict[str, list[dict[str, Any]]] = {}
    for policy in template.find_resources("AWS::IAM::Policy").values():
        if role is None or {"Ref": role} in policy["Properties"]["Roles"]:
            for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
                for action in listed(statement["Action"]) if statement["Effect"] == "Allow" else []:
                    found.setdefault(action, []).append(statement)
    return found


def function_role(template: Template, handler: str) -> str:
    """The logical id of the role of the function with that handler."""
    role: str = only(template, "AWS::Lambda::Function", Handler=handler)["Properties"]["Role"]["Fn::GetAtt"][0]
    return role

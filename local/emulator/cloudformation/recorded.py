"""Every other type of the registry: judged by its schema, then recorded.

Nothing stands behind such a resource. Its properties are those that AWS would accept as far as the schema knows,
its physical id and the attributes that GetAtt can ask for are made up in AWS's form.
"""

from __future__ import annotations

import hashlib
from typing import Any

from ministack.core.responses import get_account_id, get_region
from ministack.services.cloudformation import provisioners

from local.emulator.cloudformation import registry
from local.emulator.cloudformation.provide import Made, Properties

# Types whose absence a later refusal would hide: they are not recorded, so a template that uses one fails at once.
_REFUSED_PREFIXES = ("AWS::CloudFormation::",)


def install() -> None:
    """Register every registry type that has no provider yet."""
    for resource_type in registry.types():
        if resource_type in provisioners._RESOURCE_HANDLERS or resource_type.startswith(_REFUSED_PREFIXES):
            continue
        provisioners._RESOURCE_HANDLERS[resource_type] = {
            "create": _creator(resource_type),
            "update": _updater(resource_type),
            "update_with_logical_id": True,
            "delete": lambda _physical_id, _properties: None,
        }


def _creator(resource_type: str) -> Any:
    def create(logical_id: str, properties: Properties, stack: str) -> Made:
        registry.check(resource_type, properties)
        name = provisioners._physical_name(stack, logical_id)
        identifier = registry.identifier(resource_type)
        physical_id = (
            "|".join(str(properties.get(key) or _attribute(resource_type, key, name)) for key in identifier) or name
        )
        return physical_id, {key: _attribute(resource_type, key, name) for key in registry.read_only(resource_type)}

    return create


def _updater(resource_type: str) -> Any:
    def update(physical_id: str, old: Properties, new: Properties, stack: str, logical_id: str) -> Made:
        registry.check(resource_type, new)
        if any(old.get(key) != new.get(key) for key in registry.create_only(resource_type)):
            made: Made = provisioners._replace_resource(resource_type, physical_id, old, new, stack, logical_id)
            return made
        name = provisioners._physical_name(stack, logical_id)
        return physical_id, {key: _attribute(resource_type, key, name) for key in registry.read_only(resource_type)}

    return update


def _attribute(resource_type: str, key: str, name: str) -> str:
    service, kind = (part.lower() for part in resource_type.split("::")[1:3])
    if key.endswith(("Arn", "ARN")):
        return f"arn:aws:{service}:{get_region()}:{get_account_id()}:{kind}/{name}"
    return f"{kind[:8]}-{hashlib.sha256(f'{name}/{key}'.encode()).hexdigest()[:17]}"

"""Adds resource types to ministack's CloudFormation; types without a provider are recorded.

The registry's schema checks the properties and decides what replaces the resource. A recorded type does nothing: its
physical id and the attributes that GetAtt can ask for are made up in AWS's form.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from ministack.core.responses import AccountRegionScopedDict, get_account_id, get_region
from ministack.services.cloudformation import provisioners

from local.emulator.cloudformation import registry

Properties = dict[str, Any]
Made = tuple[str, Properties]
Create = Callable[[str, Properties, str], Made]
Update = Callable[[str, Properties, Properties], Properties]
Delete = Callable[[str, Properties], None]

# Control types that the emulator does not have: a template with one fails at once.
_REFUSED = "AWS::CloudFormation::"


def provide(resource_type: str, create: Create, delete: Delete, update: Update | None = None) -> None:
    """Register a type.

    `update` carries out an in-place change and returns the changed attributes; without it such a change is recorded.
    """
    provisioners._RESOURCE_HANDLERS[resource_type] = _handler(resource_type, create, delete, update)
    whole = tuple(path[0] for path in registry.create_only(resource_type) if len(path) == 1)
    provisioners._REPLACING_PROPERTIES[resource_type] = whole
    tags = registry.schema(resource_type).get("properties", {}).get("Tags", {})
    if tags.get("type") == "array":
        provisioners._STACK_TAG_PROPERTY[resource_type] = ("Tags", "list")


def record_others() -> None:
    """Record every type of the registry that has no provider. Call it last."""
    for resource_type in registry.types():
        if resource_type not in provisioners._RESOURCE_HANDLERS and not resource_type.startswith(_REFUSED):
            handler = _handler(resource_type, _recorder(resource_type), lambda _physical_id, _properties: None, None)
            provisioners._RESOURCE_HANDLERS[resource_type] = handler


def _handler(resource_type: str, create: Create, delete: Delete, update: Update | None) -> Properties:
    # ministack takes what an update returns for all the attributes.
    attributes: Any = AccountRegionScopedDict()

    def create_checked(logical_id: str, properties: Properties, stack: str) -> Made:
        registry.check(resource_type, properties)
        physical_id, found = create(logical_id, properties, stack)
        attributes[physical_id] = found
        return physical_id, found

    def update_checked(physical_id: str, old: Properties, new: Properties, stack: str, logical_id: str) -> Made:
        registry.check(resource_type, new)
        if any(_inside(old, path) != _inside(new, path) for path in registry.create_only(resource_type)):
            made: Made = provisioners._replace_resource(resource_type, physical_id, old, new, stack, logical_id)
            return made
        changed = update(physical_id, old, new) if update else {}
        attributes[physical_id] = {**attributes.get(physical_id, {}), **changed}
        return physical_id, attributes[physical_id]

    return {
        "create": create_checked,
        "update": update_checked,
        "update_with_logical_id": True,
        "delete": delete,
    }


def _recorder(resource_type: str) -> Create:
    def create(logical_id: str, properties: Properties, stack: str) -> Made:
        name = provisioners._physical_name(stack, logical_id)
        keys = registry.identifier(resource_type)
        parts = [str(properties.get(key) or _attribute(resource_type, key, name)) for key in keys]
        attributes = {key: _attribute(resource_type, key, name) for key in registry.read_only(resource_type)}
        return "|".join(parts) or name, attributes

    return create


def _attribute(resource_type: str, key: str, name: str) -> str:
    service, kind = (part.lower() for part in resource_type.split("::")[1:3])
    if key.endswith(("Arn", "ARN")):
        return f"arn:aws:{service}:{get_region()}:{get_account_id()}:{kind}/{name}"
    return f"{kind[:8]}-{hashlib.sha256(f'{name}/{key}'.encode()).hexdigest()[:17]}"


def _inside(value: Any, path: tuple[str, ...]) -> Any:
    if not path or value is None:
        return value
    if path[0] == "*":
        return [_inside(entry, path[1:]) for entry in value] if isinstance(value, list) else None
    return _inside(value.get(path[0]), path[1:]) if isinstance(value, dict) else None

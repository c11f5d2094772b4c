"""How a resource type joins ministack's CloudFormation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ministack.services.cloudformation import provisioners

from local.emulator.cloudformation import registry

Properties = dict[str, Any]
Made = tuple[str, dict[str, Any]]
Create = Callable[[str, Properties, str], Made]
Update = Callable[[str, Properties, Properties], dict[str, Any]]
Delete = Callable[[str, Properties], None]


def provide(resource_type: str, create: Create, delete: Delete, update: Update | None = None) -> None:
    """Register a type: properties are checked by the registry's schema, replacement follows its createOnlyProperties.

    `update` carries out an in-place change and answers the attributes; without one a change that does not
    replace is recorded and the attributes stay.
    """

    # ministack takes what an update answers for all the attributes that there are.
    attributes: dict[str, dict[str, Any]] = {}

    def create_checked(logical_id: str, properties: Properties, stack: str) -> Made:
        registry.check(resource_type, properties)
        physical_id, found = create(logical_id, properties, stack)
        attributes[physical_id] = found
        return physical_id, found

    def update_checked(physical_id: str, old: Properties, new: Properties, stack: str, logical_id: str) -> Made:
        registry.check(resource_type, new)
        if any(_inside(old, path) != _inside(new, path) for path in registry.nested_create_only(resource_type)):
            made: Made = provisioners._replace_resource(resource_type, physical_id, old, new, stack, logical_id)
            return made
        changed = update(physical_id, old, new) if update else {}
        attributes[physical_id] = {**attributes.get(physical_id, {}), **changed}
        return physical_id, attributes[physical_id]

    provisioners._RESOURCE_HANDLERS[resource_type] = {
        "create": create_checked,
        "update": update_checked,
        "update_with_logical_id": True,
        "delete": delete,
    }
    provisioners._REPLACING_PROPERTIES[resource_type] = registry.create_only(resource_type)
    tags = registry.schema(resource_type).get("properties", {}).get("Tags", {})
    if tags.get("type") == "array":
        provisioners._STACK_TAG_PROPERTY[resource_type] = ("Tags", "list")


def tag_specification(kind: str, properties: Properties) -> list[dict[str, Any]]:
    """CloudFormation's Tags as an EC2 TagSpecifications list."""
    tags = [{"Key": str(t["Key"]), "Value": str(t["Value"])} for t in properties.get("Tags", [])]
    return [{"ResourceType": kind, "Tags": tags}] if tags else []


def _inside(value: Any, path: tuple[str, ...]) -> Any:
    if not path or value is None:
        return value
    if path[0] == "*":
        return [_inside(entry, path[1:]) for entry in value] if isinstance(value, list) else None
    return _inside(value.get(path[0]), path[1:]) if isinstance(value, dict) else None

"""Deletions of clusters' stacks, as far as they are steered: later, or with a failure."""

from __future__ import annotations

import asyncio
from typing import Any

from ministack.services.cloudformation import _stacks, handlers, stacks

from local.world import steering

# What holds a cluster's deletion up in life, as a rule: something of the user's still uses a security group of it.
_HELD = "AWS::EC2::SecurityGroup"


def install() -> None:
    """Ask for an outcome at the start of a stack's deletion."""
    delete_stack, delete_resource = stacks._delete_stack_async, stacks._delete_resource
    held: dict[str, str] = {}

    async def delete(stack_name: str, stack_id: str, *rest: Any, **named: Any) -> None:
        steered = steering.outcomes.take(stack_name, "delete")
        if steered and steered.delay_s:
            _stacks[stack_name]["StackStatus"] = "DELETE_IN_PROGRESS"
            await asyncio.sleep(steered.delay_s)
        if steered and steered.result == "fail":
            held[stack_name] = steered.reason
        try:
            await delete_stack(stack_name, stack_id, *rest, **named)
        finally:
            held.pop(stack_name, None)

    def delete_one(resource_type: str, physical_id: str, properties: dict[str, Any], *rest: Any, **named: Any) -> None:
        stack_name = rest[0] if rest else named.get("stack_name")
        if resource_type == _HELD and stack_name in held:
            raise RuntimeError(held[stack_name])
        delete_resource(resource_type, physical_id, properties, *rest, **named)

    stacks._delete_stack_async = handlers._delete_stack_async = delete
    stacks._delete_resource = delete_one

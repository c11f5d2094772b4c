"""Deletions of stacks: of a stack that is still being created, and with outcomes that a client asked for.

A stack in CREATE_IN_PROGRESS may be deleted on AWS: its creation is cancelled, and the deletion replaces the rollback.
ministack 1.5.33 runs both at once (services/cloudformation/stacks.py:732 and :1140).
"""

from __future__ import annotations

import asyncio
from typing import Any

from ministack.services.cloudformation import _stacks, changesets, handlers, stacks, wait_conditions

from local.emulator import instructions

# The usual reason why a cluster's deletion fails: something of the user's still uses its security group.
_HELD = "AWS::EC2::SecurityGroup"
_CANCELLED = "Resource creation cancelled"
_POLL_S = 0.2
DELETING = "_deletion_requested"
"""Mark on the record of a stack whose creation is cancelled for its deletion."""


def install() -> None:
    """Change how deletions begin and end."""
    _creations_make_room()
    delete_stack, delete_resource = stacks._delete_stack_async, stacks._delete_resource
    held: dict[str, str] = {}

    async def delete(stack_name: str, stack_id: str, *rest: Any, **named: Any) -> None:
        planned = instructions.outcome(stack_name, "delete")
        await _cancel_creation(stack_name)
        if planned and planned.delay_s:
            _stacks[stack_name]["StackStatus"] = "DELETE_IN_PROGRESS"
            await asyncio.sleep(planned.delay_s)
        if planned and planned.result == "fail":
            held[stack_name] = planned.reason
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


def _creations_make_room() -> None:
    deploy, roll_back = stacks._deploy_stack_async, stacks._roll_back_operation

    async def deploy_one(stack_name: str, *rest: Any, **named: Any) -> None:
        stack = _stacks[stack_name]
        stack["_deploying"] = True
        try:
            await deploy(stack_name, *rest, **named)
        finally:
            stack["_deploying"] = False

    async def roll_back_unless_deleted(
        stack_name: str, stack_id: str, stack: dict[str, Any], *rest: Any, **named: Any
    ) -> None:
        if not stack.get(DELETING):
            await roll_back(stack_name, stack_id, stack, *rest, **named)

    for module in (stacks, handlers, changesets):
        module._deploy_stack_async = deploy_one
    stacks._roll_back_operation = handlers._roll_back_operation = roll_back_unless_deleted


async def _cancel_creation(stack_name: str) -> None:
    stack = _stacks.get(stack_name) or {}
    if stack.get("StackStatus") != "CREATE_IN_PROGRESS" or not stack.get("_deploying"):
        return
    stack[DELETING] = True
    stack["StackStatus"] = "DELETE_IN_PROGRESS"
    while stack.get("_deploying"):
        for (stack_id, _), waiting in list(wait_conditions._waiting.items()):
            if stack_id == stack["StackId"]:
                signal = {"Status": "FAILURE", "UniqueId": "cancelled", "Reason": _CANCELLED}
                wait_conditions.deliver_signal(waiting["token"], signal)
        await asyncio.sleep(_POLL_S)
    stack.pop(DELETING)

"""Custom resources as CloudFormation treats them, where ministack 1.5.33 differs (services/cloudformation).

- custom_resource.py:75: the rollback deletes a resource whose creation failed or was never answered, by the physical id
  of its answer or by one that CloudFormation makes up. ministack forgets it.
- stacks.py:401: where that deletion fails, the resource stays in the stack, and the next deletion tries again.
- custom_resource.py:23: CancelUpdateStack cancels the resource without waiting for its answer; the rollback's Update is
  sent while the first one is still at work.
- custom_resource.py:52: ResponseURL is signed, and its query has the time.

local.control.Limit changes how long CloudFormation waits.
"""

from __future__ import annotations

import datetime
import re
import threading
import time
from typing import Any

from ministack.core.responses import get_region, new_uuid
from ministack.services import stepfunctions
from ministack.services.cloudformation import _stacks, custom_resource, handlers, stacks, wait_conditions

from local.emulator import instructions
from local.emulator.deletions import DELETING

_SLICE_S = 0.2
_URL_SECONDS = 7200
_waiting = threading.local()


class _Cancelled(Exception):
    """The stack's operation was cancelled while the resource was being changed."""


class _Answer:
    """The event of an answer. Waiting ends early when the stack's operation is cancelled."""

    def __init__(self, event: threading.Event) -> None:
        self._event = event

    def wait(self, timeout: float) -> bool:
        stack_name = _waiting.stack_name
        limit = instructions.limit(stack_name).custom_resource_s
        end = time.monotonic() + (timeout if limit is None else limit)
        while (left := end - time.monotonic()) > 0:
            if self._event.wait(min(_SLICE_S, left)):
                return True
            stack = _stacks.get(stack_name) or {}
            if stack.get("_cancel_requested") and stack.get("StackStatus") == "UPDATE_IN_PROGRESS":
                raise _Cancelled("Resource update cancelled")
            if stack.get(DELETING):
                raise _Cancelled("Resource creation cancelled")
        return False


def install() -> None:
    """Install the differences."""
    failed: dict[tuple[str, str], dict[str, Any]] = {}
    _patch_answers(failed)
    _patch_rollbacks(failed)
    _sign_urls()
    _limit_waits()
    _backdate()


def _patch_answers(failed: dict[tuple[str, str], dict[str, Any]]) -> None:
    register, deliver, invoke = (
        custom_resource.register_token,
        custom_resource.deliver_response,
        custom_resource.invoke_custom_resource,
    )
    answered: dict[tuple[str, str], str] = {}

    def remember(token: str, response: dict[str, Any]) -> bool:
        known = bool(deliver(token, response))
        if known and response.get("PhysicalResourceId"):
            answered[str(response.get("StackId")), str(response.get("LogicalResourceId"))] = str(
                response["PhysicalResourceId"]
            )
        return known

    def invoke_one(  # noqa: PLR0917 - ministack's own signature
        request_type: str,
        logical_id: str,
        props: dict[str, Any],
        stack_name: str,
        stack_id: str,
        resource_type: str,
        *rest: Any,
        **named: Any,
    ) -> Any:
        key = (stack_id, logical_id)
        answered.pop(key, None)
        _waiting.stack_name = stack_name
        try:
            return invoke(request_type, logical_id, props, stack_name, stack_id, resource_type, *rest, **named)
        except Exception:  # of any kind: it is raised again below
            if request_type == "Create":
                failed[key] = {
                    "PhysicalResourceId": answered.get(key) or f"{stack_name}-{logical_id}-{new_uuid()[:13].upper()}",
                    "ResourceType": resource_type,
                    "ResourceStatus": "CREATE_FAILED",
                    "LogicalResourceId": logical_id,
                    "Properties": props,
                    "Attributes": {},
                    "Timestamp": datetime.datetime.now(datetime.UTC).isoformat(),
                }
                stack = _stacks.get(stack_name) or {}
                if stack.get(DELETING):
                    # The deletion that follows replaces the rollback.
                    stack["_resources"][logical_id] = failed.pop(key)
            raise

    custom_resource.register_token = lambda token: _Answer(register(token))
    custom_resource.deliver_response = remember
    custom_resource.invoke_custom_resource = invoke_one


def _patch_rollbacks(failed: dict[tuple[str, str], dict[str, Any]]) -> None:
    roll_back = stacks._roll_back_operation

    async def roll_back_all(
        stack_name: str, stack_id: str, stack: dict[str, Any], operation: dict[str, Any], *rest: Any, **named: Any
    ) -> None:
        logical_id = operation.get("failed_logical_id")
        record = failed.pop((stack_id, logical_id), None) if logical_id else None
        if record:
            stack.setdefault("_resources", {})[logical_id] = record
            operation = {**operation, "created": [*operation.get("created", []), logical_id]}
        await roll_back(stack_name, stack_id, stack, operation, *rest, **named)
        for name, left in (stack.get("_rollback_failed") or {}).items():
            if "Properties" in left and stack["StackStatus"] == "ROLLBACK_FAILED":
                stack["_resources"][name] = {
                    **left,
                    "LogicalResourceId": name,
                    "ResourceStatus": "DELETE_FAILED",
                    "Attributes": {},
                    "Timestamp": datetime.datetime.now(datetime.UTC).isoformat(),
                }

    stacks._roll_back_operation = handlers._roll_back_operation = roll_back_all


def _sign_urls() -> None:
    plain = custom_resource._response_url

    def signed(token: str) -> str:
        now = datetime.datetime.now(datetime.UTC)
        scope = f"ASIALOCALEMULATOR/{now:%Y%m%d}/{get_region()}/s3/aws4_request".replace("/", "%2F")
        return (
            f"{plain(token)}?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Date={now:%Y%m%dT%H%M%SZ}&X-Amz-SignedHeaders=host"
            f"&X-Amz-Expires={_URL_SECONDS}&X-Amz-Credential={scope}&X-Amz-Signature={token.replace('-', '')}"
            # On AWS the path names stack and resource; here it is the token alone.
            f"&x-stack={_waiting.stack_name}"
        )

    custom_resource._response_url = signed


def _limit_waits() -> None:
    wait_for = wait_conditions.wait_for

    def limited(token: str, stack_id: str, stack_name: str, *rest: Any) -> Any:
        *others, timeout_s = rest
        limit = instructions.limit(stack_name).wait_condition_s
        return wait_for(token, stack_id, stack_name, *others, timeout_s if limit is None else limit)

    wait_conditions.wait_for = limited


def _backdate() -> None:
    run = stepfunctions._run_execution

    def earlier(arn: str) -> None:
        execution = stepfunctions._executions[arn]
        # The ARN of the stack: arn:aws:cloudformation:region:account:stack/name/id.
        found = re.search(r":stack/([^/]+)/", execution["input"])
        seconds = instructions.limit(found[1]).begun_s_ago if found else 0
        if seconds:
            begun = datetime.datetime.fromisoformat(execution["startDate"]) - datetime.timedelta(seconds=seconds)
            execution["startDate"] = begun.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        run(arn)

    stepfunctions._run_execution = earlier

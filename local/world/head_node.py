"""The stand-in for what runs on a head node: it signals that the node is configured and keeps the fleet's status.

No instance of the world boots. ParallelCluster's stack waits for its head node to report; the stand-in waits for
the instance of that stack and reports for it, as cfn-signal on the node would. What a real node would install,
and whether its scripts succeed, is not seen here.
"""

from __future__ import annotations

import contextvars
import datetime
import json
import logging
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import boto3
from ministack import app
from ministack.core.responses import get_account_id, get_region
from ministack.services import ec2
from ministack.services.cloudformation import wait_conditions

logger = logging.getLogger("world.head_node")

INSTANCE_WAIT_SECONDS = 600
FLEET_ITEM = "COMPUTE_FLEET"
# What clustermgtd on the node makes of a request.
SETTLED = {"STOP_REQUESTED": "STOPPED", "START_REQUESTED": "RUNNING"}


@dataclass(frozen=True)
class Outcome:
    """How the configuration of a head node ended."""

    succeeded: bool
    reason: str


def outcome(_stack_id: str, instance: dict[str, Any] | None) -> Outcome:
    """Decide what the head node reports. The one place where a fault could be steered in."""
    if instance is None:
        return Outcome(False, f"no head node appeared within {INSTANCE_WAIT_SECONDS} s")
    return Outcome(True, "Head node configured (stand-in of the local world)")


def install(endpoint: str) -> None:
    """Attach to wait-condition handles and to requests about the compute fleet."""
    original = wait_conditions.register_handle

    def register(stack_id: str) -> tuple[str, str]:
        url, token = original(stack_id)
        _in_background(lambda: _report(stack_id, url, endpoint))
        return url, token

    wait_conditions.register_handle = register
    dynamodb = app.SERVICE_HANDLERS["dynamodb"]

    async def watch(method: str, path: str, headers: dict[str, str], body: bytes, query: dict[str, Any]) -> Any:
        answer = await dynamodb(method, path, headers, body, query)
        writes = headers.get("x-amz-target", "").endswith((".PutItem", ".UpdateItem"))
        if writes and FLEET_ITEM.encode() in body and b"_REQUESTED" in body:
            table = json.loads(body)["TableName"]
            _in_background(lambda: _settle(table, endpoint))
        return answer

    app.SERVICE_HANDLERS["dynamodb"] = watch


def _in_background(work: Callable[[], None]) -> None:
    # The context carries the account and the region of the request.
    context = contextvars.copy_context()

    def run() -> None:
        try:
            context.run(work)
        except Exception:
            logger.exception("head-node stand-in")

    threading.Thread(target=run, daemon=True, name="head-node").start()


def _report(stack_id: str, url: str, endpoint: str) -> None:
    token = url.rpartition("/")[2]
    deadline = time.monotonic() + INSTANCE_WAIT_SECONDS
    instance = None
    while instance is None and time.monotonic() < deadline:
        if not wait_conditions.has_handle(token):
            return
        instance = _head_node(stack_id)
        time.sleep(0.3)
    decided = outcome(stack_id, instance)
    if instance is not None and decided.succeeded:
        _put_status(f"parallelcluster-{_tag(instance, 'parallelcluster:cluster-name')}", "RUNNING", endpoint)
    body = json.dumps(
        {
            "Status": "SUCCESS" if decided.succeeded else "FAILURE",
            "Reason": decided.reason,
            "UniqueId": (instance or {}).get("InstanceId", "no-instance"),
            "Data": "",
        }
    )
    request = urllib.request.Request(url, data=body.encode(), method="PUT", headers={"Content-Type": ""})  # noqa: S310
    with urllib.request.urlopen(request, timeout=30):  # noqa: S310 - the world's own address on loopback
        logger.info("%s: %s", stack_id, decided.reason)


def _tag(instance: dict[str, Any], key: str) -> str:
    return next((t["Value"] for t in ec2._tags.get(instance["InstanceId"], []) if t["Key"] == key), "")


def _head_node(stack_id: str) -> dict[str, Any] | None:
    for instance in list(ec2._instances.values()):
        wanted = {"aws:cloudformation:stack-id": stack_id, "parallelcluster:node-type": "HeadNode"}
        if instance["State"]["Name"] == "running" and all(_tag(instance, k) == v for k, v in wanted.items()):
            found: dict[str, Any] = instance
            return found
    return None


def _table(name: str, endpoint: str) -> Any:
    session = boto3.Session(
        aws_access_key_id=get_account_id(),
        aws_secret_access_key="local",  # noqa: S106 - the world does not check the signature of an account's own key
        region_name=get_region(),
    )
    return session.resource("dynamodb", endpoint_url=endpoint).Table(name)


def _put_status(table: str, status: str, endpoint: str) -> None:
    updated = str(datetime.datetime.now(datetime.UTC))
    data = {"status": status, "lastStatusUpdatedTime": updated}
    _table(table, endpoint).put_item(Item={"Id": FLEET_ITEM, "Data": data})


def _settle(table: str, endpoint: str) -> None:
    item = _table(table, endpoint).get_item(Key={"Id": FLEET_ITEM}).get("Item", {})
    status = item.get("Data", {}).get("status", "")
    if status in SETTLED:
        _put_status(table, SETTLED[status], endpoint)

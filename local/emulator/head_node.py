"""Stand-in for ParallelCluster's programs on a head node: cfn-signal after the configuration, and the compute fleet.

No instance of the emulator boots. ParallelCluster's stack waits for its head node's signal; the stand-in waits for the
stack's instance and signals for it. Nothing is installed, no script runs; local/control can change the result.
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
from functools import cache
from typing import Any

import boto3
from ministack import app
from ministack.core.responses import get_account_id, get_region
from ministack.services import ec2
from ministack.services.cloudformation import _stacks, wait_conditions

from local.control.model import Operation
from local.emulator import instructions
from local.emulator.wire import call

logger = logging.getLogger("emulator.head_node")

INSTANCE_WAIT_SECONDS = 600
FLEET_ITEM = "COMPUTE_FLEET"
_TABLE = "parallelcluster-"
_TAG = "parallelcluster:"
_GONE = ("terminated", "shutting-down")
# What clustermgtd does with a request: the operation whose outcome can be set; the fleet's status during and after it.
_REQUESTS: dict[str, tuple[Operation, str, str]] = {
    "STOP_REQUESTED": ("fleet-stop", "STOPPING", "STOPPED"),
    "START_REQUESTED": ("fleet-start", "STARTING", "RUNNING"),
}


def install(endpoint: str) -> None:
    """Watch wait-condition handles, and requests about the fleet, which the API writes into the cluster's table."""
    register_handle, dynamodb = wait_conditions.register_handle, app.SERVICE_HANDLERS["dynamodb"]

    def register(stack_id: str) -> tuple[str, str]:
        url, token = register_handle(stack_id)
        in_background(lambda: _signal_for(stack_id, url, endpoint))
        return url, token

    async def watch(method: str, path: str, headers: dict[str, str], body: bytes, query: dict[str, Any]) -> Any:
        answer = await dynamodb(method, path, headers, body, query)
        writes = headers.get("x-amz-target", "").endswith((".PutItem", ".UpdateItem"))
        if writes and FLEET_ITEM.encode() in body and b"_REQUESTED" in body:
            cluster = str(json.loads(body)["TableName"]).removeprefix(_TABLE)
            in_background(lambda: _settle_fleet(cluster, endpoint))
        return answer

    wait_conditions.register_handle = register
    app.SERVICE_HANDLERS["dynamodb"] = watch


def in_background(work: Callable[[], None]) -> None:
    """Do something in a thread, in the account and region of the request."""
    context = contextvars.copy_context()

    def run() -> None:
        try:
            context.run(work)
        except Exception:  # the request was answered long ago: the emulator's log is the place left
            logger.exception("head-node stand-in")

    threading.Thread(target=run, daemon=True, name="head-node").start()


def tag(instance: dict[str, Any], key: str) -> str:
    """A tag of ParallelCluster on an instance, empty where it has none."""
    return next((t["Value"] for t in ec2._tags.get(instance["InstanceId"], []) if t["Key"] == _TAG + key), "")


def set_fleet(given: dict[str, Any], endpoint: str) -> None:
    """Set a cluster's status now; raises ValueError where there is no such cluster."""
    _head_node_of(given["cluster"])
    _put_status(given["cluster"], given["status"], endpoint)


def add_nodes(given: dict[str, Any]) -> None:
    """Start compute nodes of a cluster; raises ValueError where it has no head node."""
    head = _head_node_of(given["cluster"])
    tags = {"cluster-name": given["cluster"], "node-type": "Compute", **given["tags"]}
    call(
        "RunInstances",
        MinCount=given["count"],
        MaxCount=given["count"],
        ImageId=head["ImageId"],
        InstanceType=given["instance_type"],
        SubnetId=head["SubnetId"],
        TagSpecifications=[
            {"ResourceType": "instance", "Tags": [{"Key": _TAG + key, "Value": value} for key, value in tags.items()]}
        ],
    )


def _head_node_of(cluster: str) -> dict[str, Any]:
    for head in _nodes(cluster, "HeadNode"):
        return head
    raise ValueError(f"there is no cluster {cluster!r} with a running head node")


def _nodes(cluster: str, kind: str) -> list[dict[str, Any]]:
    return [
        item
        for item in list(ec2._instances.values())
        if item["State"]["Name"] not in _GONE and (tag(item, "cluster-name"), tag(item, "node-type")) == (cluster, kind)
    ]


def _signal_for(stack_id: str, url: str, endpoint: str) -> None:
    token = url.rpartition("/")[2]
    deadline = time.monotonic() + INSTANCE_WAIT_SECONDS
    # The handle is deleted with its stack. Only ParallelCluster's stacks have a head node.
    while (head := _head_node_in(stack_id)) is None:
        if not wait_conditions.has_handle(token):
            return
        if time.monotonic() > deadline:
            logger.warning("%s: no head node appeared within %d s", stack_id, INSTANCE_WAIT_SECONDS)
            return
        time.sleep(0.3)
    cluster = tag(head, "cluster-name")
    stack: dict[str, Any] = next((item for item in list(_stacks.values()) if item["StackId"] == stack_id), {})
    updating = str(stack.get("StackStatus", "")).startswith("UPDATE")
    succeeded, reason = True, "Head node configured (stand-in of the local emulator)"
    if planned := instructions.outcome(cluster, "update" if updating else "create"):
        end = time.monotonic() + planned.delay_s
        while time.monotonic() < end and wait_conditions.has_handle(token):
            time.sleep(min(0.3, max(0.0, end - time.monotonic())))
        if planned.result == "silent" or not wait_conditions.has_handle(token):
            logger.info("%s: the head node stays silent", stack_id)
            return
        succeeded, reason = planned.result == "succeed", planned.reason or reason
    # An update leaves the fleet as it is.
    if succeeded and not _status(cluster, endpoint):
        _put_status(cluster, "RUNNING", endpoint)
    signal = {"Status": "SUCCESS" if succeeded else "FAILURE", "Reason": reason, "Data": ""}
    body = json.dumps({**signal, "UniqueId": head["InstanceId"]}).encode()
    request = urllib.request.Request(url, data=body, method="PUT", headers={"Content-Type": ""})  # noqa: S310
    with urllib.request.urlopen(request, timeout=30):  # noqa: S310 - the emulator's own address on loopback
        logger.info("%s: %s", stack_id, reason)


def _head_node_in(stack_id: str) -> dict[str, Any] | None:
    for instance in list(ec2._instances.values()):
        own = {"Key": "aws:cloudformation:stack-id", "Value": stack_id} in ec2._tags.get(instance["InstanceId"], [])
        if own and instance["State"]["Name"] == "running" and tag(instance, "node-type") == "HeadNode":
            found: dict[str, Any] = instance
            return found
    return None


def _settle_fleet(cluster: str, endpoint: str) -> None:
    request = _REQUESTS.get(_status(cluster, endpoint))
    if request is None:
        return
    operation, on_the_way, at_the_end = request
    if planned := instructions.outcome(cluster, operation):
        _put_status(cluster, on_the_way, endpoint)
        time.sleep(planned.delay_s)
        if planned.result == "silent":
            return
        if planned.result == "fail":
            at_the_end = "PROTECTED"
    nodes = _nodes(cluster, "Compute") if at_the_end == "STOPPED" else []
    if nodes:
        call("TerminateInstances", InstanceIds=[item["InstanceId"] for item in nodes])
    _put_status(cluster, at_the_end, endpoint)


def _status(cluster: str, endpoint: str) -> str:
    """The status in the cluster's table, empty where there is none yet."""
    item = _table(cluster, endpoint).get_item(Key={"Id": FLEET_ITEM}).get("Item", {})
    return str(item.get("Data", {}).get("status", ""))


def _put_status(cluster: str, value: str, endpoint: str) -> None:
    data = {"status": value, "lastStatusUpdatedTime": str(datetime.datetime.now(datetime.UTC))}
    _table(cluster, endpoint).put_item(Item={"Id": FLEET_ITEM, "Data": data})


def _table(cluster: str, endpoint: str) -> Any:
    return _dynamodb(get_account_id(), get_region(), endpoint).Table(f"{_TABLE}{cluster}")


@cache
def _dynamodb(account: str, region: str, endpoint: str) -> Any:
    return boto3.Session(account, "local", None, region).resource("dynamodb", endpoint_url=endpoint)

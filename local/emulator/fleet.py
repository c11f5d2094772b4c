"""The compute fleet of a cluster, as the daemons on a head node keep it: its status and its nodes."""

from __future__ import annotations

import contextvars
import datetime
import json
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import boto3
from ministack import app
from ministack.core.responses import get_account_id, get_region
from ministack.services import ec2

from local.emulator import steering
from local.emulator.wire import call
from local.steering.model import Operation

logger = logging.getLogger("emulator.fleet")

FLEET_ITEM = "COMPUTE_FLEET"
_TABLE = "parallelcluster-"
_GONE = ("terminated", "shutting-down")
# What clustermgtd does with a request: the operation that may be steered, the status on the way, the status at the end.
_REQUESTS: dict[str, tuple[Operation, str, str]] = {
    "STOP_REQUESTED": ("fleet-stop", "STOPPING", "STOPPED"),
    "START_REQUESTED": ("fleet-start", "STARTING", "RUNNING"),
}
_FAILED = "PROTECTED"


def install(endpoint: str) -> None:
    """Carry out requests about the fleet, which the API writes into the cluster's table."""
    dynamodb = app.SERVICE_HANDLERS["dynamodb"]

    async def watch(method: str, path: str, headers: dict[str, str], body: bytes, query: dict[str, Any]) -> Any:
        answer = await dynamodb(method, path, headers, body, query)
        writes = headers.get("x-amz-target", "").endswith((".PutItem", ".UpdateItem"))
        if writes and FLEET_ITEM.encode() in body and b"_REQUESTED" in body:
            cluster = str(json.loads(body)["TableName"]).removeprefix(_TABLE)
            in_background(lambda: _settle(cluster, endpoint))
        return answer

    app.SERVICE_HANDLERS["dynamodb"] = watch


def in_background(work: Callable[[], None]) -> None:
    """Do something in a thread, in the account and region of the request."""
    context = contextvars.copy_context()

    def run() -> None:
        try:
            context.run(work)
        except Exception:
            logger.exception("head-node stand-in")

    threading.Thread(target=run, daemon=True, name="head-node").start()


def status(cluster: str, endpoint: str) -> str:
    """The status in the cluster's table, empty where there is none yet."""
    item = _table(cluster, endpoint).get_item(Key={"Id": FLEET_ITEM}).get("Item", {})
    return str(item.get("Data", {}).get("status", ""))


def put_status(cluster: str, value: str, endpoint: str) -> None:
    """Write the status, as the head node would."""
    updated = str(datetime.datetime.now(datetime.UTC))
    data = {"status": value, "lastStatusUpdatedTime": updated}
    _table(cluster, endpoint).put_item(Item={"Id": FLEET_ITEM, "Data": data})


def order(given: dict[str, Any], endpoint: str) -> dict[str, Any]:
    """Set a cluster's status now; raises ValueError where there is no such cluster."""
    cluster = str(given["cluster"])
    if not _nodes(cluster, "HeadNode"):
        raise ValueError(f"there is no cluster {cluster!r} with a running head node")
    put_status(cluster, str(given["status"]), endpoint)
    return {}


def start_nodes(given: dict[str, Any]) -> dict[str, Any]:
    """Start compute nodes of a cluster; raises ValueError where it has no head node."""
    cluster = str(given["cluster"])
    head = next((item for item in _nodes(cluster, "HeadNode")), None)
    if head is None:
        raise ValueError(f"there is no cluster {cluster!r} with a running head node")
    tags = {
        "parallelcluster:cluster-name": cluster,
        "parallelcluster:node-type": "Compute",
        "parallelcluster:queue-name": str(given["queue"]),
        "parallelcluster:compute-resource-name": str(given["compute_resource"]),
        "Name": "Compute",
    }
    made = call(
        "RunInstances",
        MinCount=int(given["count"]),
        MaxCount=int(given["count"]),
        ImageId=head["ImageId"],
        InstanceType=str(given["instance_type"]),
        SubnetId=head["SubnetId"],
        TagSpecifications=[
            {"ResourceType": "instance", "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}
        ],
    )
    return {"instances": [item["InstanceId"] for item in made["Instances"]]}


def tag(instance: dict[str, Any], key: str) -> str:
    """A tag of an instance, empty where it has none."""
    return next((t["Value"] for t in ec2._tags.get(instance["InstanceId"], []) if t["Key"] == key), "")


def _nodes(cluster: str, kind: str) -> list[dict[str, Any]]:
    wanted = {"parallelcluster:cluster-name": cluster, "parallelcluster:node-type": kind}
    return [
        item
        for item in list(ec2._instances.values())
        if item["State"]["Name"] not in _GONE and all(tag(item, key) == value for key, value in wanted.items())
    ]


def _settle(cluster: str, endpoint: str) -> None:
    request = _REQUESTS.get(status(cluster, endpoint))
    if request is None:
        return
    operation, on_the_way, at_the_end = request
    steered = steering.outcome(cluster, operation)
    if steered:
        put_status(cluster, on_the_way, endpoint)
        time.sleep(steered.delay_s)
        if steered.result == "silent":
            return
        if steered.result == "fail":
            at_the_end = _FAILED
    nodes = _nodes(cluster, "Compute") if at_the_end == "STOPPED" else []
    if nodes:
        call("TerminateInstances", InstanceIds=[item["InstanceId"] for item in nodes])
    put_status(cluster, at_the_end, endpoint)


def _table(cluster: str, endpoint: str) -> Any:
    session = boto3.Session(
        aws_access_key_id=get_account_id(),
        aws_secret_access_key="local",  # noqa: S106 - the emulator does not check the signature of an account's own key
        region_name=get_region(),
    )
    return session.resource("dynamodb", endpoint_url=endpoint).Table(f"{_TABLE}{cluster}")

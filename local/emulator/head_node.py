"""Stand-in for ParallelCluster's programs on a head node: cfn-signal after the configuration, and the fleet's status.

No instance of the emulator boots. ParallelCluster's stack waits for its head node's signal; the stand-in waits for the
stack's instance and signals for it. Nothing is installed, no script runs; local/steering can change the result.
"""

from __future__ import annotations

import json
import logging
import time
import urllib.request
from dataclasses import dataclass
from typing import Any

from ministack.services import ec2
from ministack.services.cloudformation import _stacks, wait_conditions

from local.emulator import fleet, steering

logger = logging.getLogger("emulator.head_node")

INSTANCE_WAIT_SECONDS = 600
_CLUSTER_TAG = "parallelcluster:cluster-name"


@dataclass(frozen=True)
class Report:
    """The result of a head node's configuration."""

    succeeded: bool
    reason: str


def install(endpoint: str) -> None:
    """Watch wait-condition handles and requests about the compute fleet."""
    original = wait_conditions.register_handle

    def register(stack_id: str) -> tuple[str, str]:
        url, token = original(stack_id)
        fleet.in_background(lambda: _signal_for(stack_id, url, endpoint))
        return url, token

    wait_conditions.register_handle = register
    fleet.install(endpoint)


def _signal_for(stack_id: str, url: str, endpoint: str) -> None:
    token = url.rpartition("/")[2]
    deadline = time.monotonic() + INSTANCE_WAIT_SECONDS
    instance = None
    while instance is None:
        # The handle is deleted with its stack. Only ParallelCluster's stacks have a head node.
        if not wait_conditions.has_handle(token):
            return
        instance = _head_node(stack_id)
        if instance is None and time.monotonic() > deadline:
            logger.warning("%s: no head node appeared within %d s", stack_id, INSTANCE_WAIT_SECONDS)
            return
        time.sleep(0.3)
    report = _outcome(stack_id, fleet.tag(instance, _CLUSTER_TAG), token)
    if report is None:
        logger.info("%s: the head node stays silent", stack_id)
        return
    cluster = fleet.tag(instance, _CLUSTER_TAG)
    # An update leaves the fleet as it is.
    if report.succeeded and not fleet.status(cluster, endpoint):
        fleet.put_status(cluster, "RUNNING", endpoint)
    _signal(url, instance, report)
    logger.info("%s: %s", stack_id, report.reason)


def _outcome(stack_id: str, cluster: str, token: str) -> Report | None:
    """What the node reports, after its delay; None where it never reports."""
    stack: dict[str, Any] = next((item for item in list(_stacks.values()) if item["StackId"] == stack_id), {})
    updating = str(stack.get("StackStatus", "")).startswith("UPDATE")
    steered = steering.outcome(cluster, "update" if updating else "create")
    if steered is None:
        return Report(True, "Head node configured (stand-in of the local emulator)")
    end = time.monotonic() + steered.delay_s
    while time.monotonic() < end and wait_conditions.has_handle(token):
        time.sleep(min(0.3, max(0.0, end - time.monotonic())))
    if steered.result == "silent" or not wait_conditions.has_handle(token):
        return None
    return Report(steered.result == "succeed", steered.reason or "Head node configured")


def _signal(url: str, instance: dict[str, Any], report: Report) -> None:
    body = json.dumps(
        {
            "Status": "SUCCESS" if report.succeeded else "FAILURE",
            "Reason": report.reason,
            "UniqueId": instance["InstanceId"],
            "Data": "",
        }
    )
    request = urllib.request.Request(url, data=body.encode(), method="PUT", headers={"Content-Type": ""})  # noqa: S310
    with urllib.request.urlopen(request, timeout=30):  # noqa: S310 - the emulator's own address on loopback
        pass


def _head_node(stack_id: str) -> dict[str, Any] | None:
    for instance in list(ec2._instances.values()):
        wanted = {"aws:cloudformation:stack-id": stack_id, "parallelcluster:node-type": "HeadNode"}
        if instance["State"]["Name"] == "running" and all(fleet.tag(instance, k) == v for k, v in wanted.items()):
            found: dict[str, Any] = instance
            return found
    return None

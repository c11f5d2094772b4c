"""The answer to CloudFormation: its attributes and reason, and the PUT to the event's pre-signed ResponseURL."""

import json
import logging
import random
import time
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import urllib3

from cluster_resource.api import ClusterView
from cluster_resource.operation import Operation, Verdict
from cluster_resource.request import Request

_LOG = logging.getLogger(__name__)
LIMIT = 4096  # bytes of the whole answer, from CloudFormation's reference of response objects
_ATTEMPTS = 5
_TIMEOUT = urllib3.Timeout(connect=5.0, read=15.0)
_NONE = "none"


def fits(request: Request, verdict: Verdict) -> bool:
    return len(body_of(request, verdict)) <= LIMIT


def with_reason(request: Request, verdict: Verdict, head: str, tail: str = "") -> Verdict:
    """The verdict with `head` and `tail` as its reason; the end of `head` is cut if the answer has no room for it.

    `tail` alone must fit.
    """

    def cut(characters: int) -> Verdict:
        return replace(verdict, reason=f"{head[:characters]}...{tail}")

    def too_long(characters: int) -> bool:
        return not fits(request, cut(characters))

    whole = replace(verdict, reason=head + tail)
    if fits(request, whole):
        return whole
    # How many of the lengths 1, 2, 3 ... come before the first that is too long: that is the longest that fits.
    return cut(bisect_left(range(1, len(head)), True, key=too_long))


def attributes(name: str, execution: str, view: ClusterView | None = None) -> dict[str, str]:
    """The resource's attributes. Each has a value: a missing one would fail every stack that refers to it."""
    return {
        "ClusterName": name,
        "HeadNodeInstanceId": (view and view.head_node_instance_id) or _NONE,
        "HeadNodePrivateIp": (view and view.head_node_private_ip) or _NONE,
        "StackArn": view.stack_arn if view else _NONE,
        "Status": view.status if view else _NONE,
        "Version": view.version if view else _NONE,
        "Execution": execution or _NONE,
    }


def success(operation: Operation, view: ClusterView | None, why: str) -> Verdict:
    _LOG.info("%s succeeded: %s", operation.kind, why)
    data = attributes(view.name, operation.execution, view) if operation.kind != "delete" and view else {}
    return Verdict("SUCCESS", operation.physical_id, why, data)


def early(operation: Operation, name: str) -> Verdict:
    """The answer while the operation goes on and another resource waits for its end. The cluster may still change."""
    note = operation.progress.note or "it has begun"
    why = f"The operation on the cluster {name} goes on: {note}. Another resource waits for its end."
    return Verdict("SUCCESS", operation.physical_id, why, attributes(name, operation.execution))


def body_of(request: Request, verdict: Verdict) -> bytes:
    """The answer as CloudFormation reads it."""
    answer: dict[str, Any] = {
        "Status": verdict.status,
        "Reason": verdict.reason,
        "PhysicalResourceId": verdict.physical_id,
        "StackId": request.stack_id,
        "RequestId": request.request_id,
        "LogicalResourceId": request.logical_id,
    }
    if verdict.data:
        answer["Data"] = verdict.data
    return json.dumps(answer, separators=(",", ":")).encode()


def send(
    request: Request,
    verdict: Verdict,
    *,
    http: urllib3.PoolManager | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Deliver the verdict. Repeating it is harmless: CloudFormation takes the first answer.

    Raises:
        RuntimeError: five attempts failed; the state machine tries again.
    """
    pool = http or urllib3.PoolManager()
    body = body_of(request, with_reason(request, verdict, verdict.reason))
    trouble = ""
    for attempt in range(_ATTEMPTS):
        if attempt:
            sleep(random.uniform(0.5, 1.0) * 2**attempt)  # noqa: S311 - jitter
        try:
            # The URL is signed for an empty content type.
            url = request.event["ResponseURL"]
            answer = pool.request("PUT", url, body=body, headers={"Content-Type": ""}, timeout=_TIMEOUT, retries=False)
        except urllib3.exceptions.HTTPError as error:
            # Not the exception's text: it holds the pre-signed URL.
            trouble = type(error).__name__
        else:
            if answer.status < 300:
                _LOG.info("CloudFormation was answered %s", verdict.status)
                return
            trouble = f"HTTP {answer.status}"
        _LOG.warning("Answering CloudFormation failed (attempt %d of %d): %s", attempt + 1, _ATTEMPTS, trouble)
    raise RuntimeError(f"CloudFormation could not be answered after {_ATTEMPTS} attempts: {trouble}")

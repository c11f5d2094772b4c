"""The answer to CloudFormation: a PUT to the event's pre-signed ResponseURL."""

import json
import logging
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import urllib3

from cluster_resource.work_item import Verdict

_LOG = logging.getLogger(__name__)
LIMIT = 4096  # bytes of the whole answer, from CloudFormation's reference of response objects
_ATTEMPTS = 5
_TIMEOUT = urllib3.Timeout(connect=5.0, read=15.0)


@dataclass(frozen=True)
class Room:
    """What is left for the reason within one answer, in bytes."""

    bytes: int

    def fits(self, reason: str) -> bool:
        return _size(reason) <= self.bytes

    def cut(self, head: str, tail: str) -> str:
        """`head` and `tail`, with as much of the head's end left out as need be."""
        if self.fits(head + tail):
            return head + tail
        low, high = 0, len(head)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.fits(f"{head[:middle]}...{tail}") else (low, middle - 1)
        text = f"{head[:low]}...{tail}"
        return text if self.fits(text) else self._head(text)

    def _head(self, text: str) -> str:
        while text and not self.fits(text):
            text = text[: len(text) - max(1, len(text) // 16)]
        return text


def room_for_reason(event: Mapping[str, Any], verdict: Verdict) -> Room:
    """The room that the answer leaves for a reason in place of the verdict's own."""
    empty = Verdict(verdict.status, verdict.physical_id, "", verdict.data)
    return Room(LIMIT - len(body_of(event, empty)))


def body_of(event: Mapping[str, Any], verdict: Verdict) -> bytes:
    """The answer as CloudFormation reads it."""
    answer: dict[str, Any] = {
        "Status": verdict.status,
        "Reason": verdict.reason,
        "PhysicalResourceId": verdict.physical_id,
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
    }
    if verdict.data:
        answer["Data"] = verdict.data
    return json.dumps(answer, separators=(",", ":")).encode()


def send(
    event: Mapping[str, Any],
    verdict: Verdict,
    *,
    http: urllib3.PoolManager | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Deliver the verdict; repeated answers are harmless, CloudFormation takes the first.

    Raises:
        RuntimeError: five attempts failed; the state machine tries again.
    """
    pool = http or urllib3.PoolManager()
    cut = room_for_reason(event, verdict).cut(verdict.reason, "")
    body = body_of(event, Verdict(verdict.status, verdict.physical_id, cut, verdict.data))
    trouble = ""
    for attempt in range(_ATTEMPTS):
        if attempt:
            sleep(random.uniform(0.5, 1.0) * 2**attempt)  # noqa: S311 - jitter
        try:
            # The URL is signed for an empty content type.
            answer = pool.request(
                "PUT", event["ResponseURL"], body=body, headers={"Content-Type": ""}, timeout=_TIMEOUT, retries=False
            )
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


def _size(reason: str) -> int:
    return len(json.dumps(reason)) - 2

"""Lambda handler of the state machine's steps; wires the clients.

Payload `{"step": "begin" | "poll" | "tell" | "answer", "work": {...}}`; the shapes are in the decision record that
the package names.
"""

import logging
import os
import time
from functools import cache
from typing import Any

from cluster_resource import response, steps, verdicts
from cluster_resource.api import ClusterApi
from cluster_resource.aws import own_aws
from cluster_resource.client import HttpClusterApi
from cluster_resource.configuration import ConfigurationError
from cluster_resource.properties import Place, claimed_name, request_of
from cluster_resource.report import own_log
from cluster_resource.signing import RoleSigner, session_name, signing_region
from cluster_resource.work_item import Verdict, Work

_LOG = logging.getLogger("cluster_resource")
_LOG.setLevel(logging.INFO)
_CAUSE_CHARACTERS = 1000


def handler(payload: dict[str, Any], _context: object) -> dict[str, Any]:
    """One step of the state machine.

    Raises:
        ValueError: the payload names no step.
    """
    item = payload.get("work") or {}
    match payload.get("step"):
        case "begin":
            return _begin(item)
        case "poll":
            now = time.time()
            return steps.step(Work.from_json(item), now, _outside()).to_json(now)
        case "tell":
            return _tell(item)
        case "answer":
            return _answer(item)
        case step:
            raise ValueError(f"The step is {step!r}; allowed are begin, poll, tell and answer.")


def _begin(item: dict[str, Any]) -> dict[str, Any]:
    event = item["event"]
    now = time.time()
    try:
        return steps.begin(event, item["started"], now, _outside(), item.get("execution", "")).to_json(now)
    except ConfigurationError as error:
        verdict = verdicts.failed_verdict(
            event,
            f"The resource's properties are wrong: {error}",
            "correct the property and deploy again.",
            asked=False,
        )
        work = Work(event, item["started"], 0, "create", verdict.physical_id, verdict=verdict)
        return work.to_json(now)


def _tell(item: dict[str, Any]) -> dict[str, Any]:
    """Answer for the time being; the execution goes on, and its verdict is for the resources that wait."""
    work = Work.from_json(item)
    response.send(work.event, verdicts.early(work, claimed_name(work.event) or ""))
    return steps.early(work).to_json(time.time())


def _answer(item: dict[str, Any]) -> dict[str, Any]:
    event = item["event"]
    verdict = _verdict_of(item)
    if not item.get("handed_over"):
        response.send(event, verdict)
    return {"status": verdict.status, "reason": verdict.reason}


def _verdict_of(item: dict[str, Any]) -> Verdict:
    given, error = item.get("verdict"), item.get("error")
    if given and not error:
        return Verdict(**given)
    event = item["event"]
    error = error or {"Error": "NoVerdict", "Cause": "the execution ended without a verdict"}
    cause = str(error.get("Cause", ""))[:_CAUSE_CHARACTERS]
    return verdicts.failed_verdict(
        event,
        f"The {request_of(event).type} of the cluster was broken off by a fault of its handler:"
        f" {error.get('Error')}: {cause}",
        f"look into {own_log()} and at the cluster's state, then deploy again.",
        asked=True,
    )


def _outside() -> steps.Outside:
    return steps.Outside(_api_for, own_aws())


def _api_for(place: Place) -> ClusterApi:
    signer = _signer(place.api_url, place.api_user_role_arn, session_name(place.cluster_name))
    return HttpClusterApi(place.api_url, place.region, signer)


@cache
def _signer(api_url: str, role_arn: str, name: str) -> RoleSigner:
    """Kept between invocations of a warm function, so that polling does not assume the role each time."""
    return RoleSigner(role_arn, name, signing_region(api_url, os.environ["AWS_REGION"]))

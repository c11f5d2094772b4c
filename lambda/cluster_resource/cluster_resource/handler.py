"""Lambda handler of the state machine's steps; wires the clients.

Payload `{"step": "begin" | "poll" | "early" | "answer", "work": {...}}`; the decision record that the package names has
the shapes.
"""

import logging
import os
import time
from dataclasses import replace
from functools import cache
from typing import Any

from cluster_resource import failures, reconcile, response
from cluster_resource.api import ClusterApi
from cluster_resource.aws import own_aws
from cluster_resource.client import HttpClusterApi, RoleSigner
from cluster_resource.operation import Operation, Verdict
from cluster_resource.request import ConfigurationError, Place, Request

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
            return reconcile.step(Operation.from_json(item), now, _clients()).to_json(now)
        case "early":
            return _answer_early(item)
        case "answer":
            return _answer(item)
        case step:
            raise ValueError(f"The step is {step!r}; allowed are begin, poll, early and answer.")


def _begin(item: dict[str, Any]) -> dict[str, Any]:
    request = Request.of(item["event"])
    now = time.time()
    try:
        return reconcile.begin(request, item["started"], now, _clients(), item.get("execution", "")).to_json(now)
    except ConfigurationError as error:
        what, todo = f"The resource's properties are wrong: {error}", "correct the property and deploy again."
        verdict = failures.without_outcome(request, what, todo, asked=False)
        return Operation(request.event, item["started"], "create", verdict.physical_id, verdict=verdict).to_json(now)


def _answer_early(item: dict[str, Any]) -> dict[str, Any]:
    """Answer while the operation goes on; its verdict is for the resources that wait."""
    operation = Operation.from_json(item)
    response.send(operation.request, response.early(operation, operation.request.claimed_name or ""))
    return replace(operation, handed_over=True).to_json(time.time())


def _answer(item: dict[str, Any]) -> dict[str, Any]:
    request = Request.of(item["event"])
    if item.get("verdict") and not item.get("error"):
        verdict = Verdict(**item["verdict"])
    else:
        error = item.get("error") or {"Error": "NoVerdict", "Cause": "the execution ended without a verdict"}
        cause = f"{error.get('Error')}: {str(error.get('Cause', ''))[:_CAUSE_CHARACTERS]}"
        what = f"The {request.type} of the cluster was broken off by an error of its handler: {cause}"
        todo = f"look at {failures.own_log()} and at the cluster's state, then deploy again."
        verdict = failures.without_outcome(request, what, todo, asked=True)
    if not item.get("handed_over"):
        response.send(request, verdict)
    return {"status": verdict.status, "reason": verdict.reason}


def _clients() -> reconcile.Clients:
    return reconcile.Clients(_api_for, own_aws())


def _api_for(place: Place) -> ClusterApi:
    return HttpClusterApi(place.api_url, place.region, _signer(place))


@cache
def _signer(place: Place) -> RoleSigner:
    """Cached while the function is warm, so that polling does not assume the role each time."""
    return RoleSigner(place.api_user_role_arn, place.cluster_name, place.api_url, os.environ["AWS_REGION"])

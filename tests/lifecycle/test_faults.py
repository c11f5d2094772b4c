"""A whole life with one fault in the way of each operation: what was asked for happens, once, and nobody notices."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from local.control import Fault
from local.control.model import Operation

from .deployment import Base
from .life import GONE, Cluster, Life
from .template import StackSpec

pytestmark = [pytest.mark.e2e, pytest.mark.lifecycle]

GATEWAY_TIMEOUT = "Endpoint request timed out"
EXPIRED = "The security token included in the request is expired"

THROTTLED = {"then": "answer", "status": 429, "message": "Too Many Requests"}
TIMED_OUT = {"then": "answer", "status": 504, "message": GATEWAY_TIMEOUT}
EXPIRED_TOKEN = {"then": "answer", "status": 403, "message": EXPIRED}

# Faults that hit the same request one after the other; only the last one may let it through.
FAULTS: dict[str, tuple[dict[str, Any], ...]] = {
    "refused, then timed out after the work was accepted": (
        {**THROTTLED, "times": 2},
        {"then": "answer", "status": 500},
        {**TIMED_OUT, "forward": True},
    ),
    "token expired, then connection lost, then lost after the work was accepted": (
        EXPIRED_TOKEN,
        {"then": "drop"},
        {"then": "drop", "forward": True},
    ),
    "function killed after the work was accepted": ({"then": "kill", "forward": True},),
    "slow": ({"then": "pass", "forward": True, "delay_s": 3},),
}

RESTART_S = 10


def whole_life(life: Life, cluster: Cluster, base: Base, faults: dict[str, tuple[Fault, ...]]) -> None:
    """Create, update and delete with the faults that are given for each HTTP method; every fault hits."""
    spec = StackSpec(cluster.name, strategy="TERMINATE")
    operations: tuple[tuple[str, Operation, str, Callable[[], str]], ...] = (
        ("POST", "create", "CREATE_COMPLETE", lambda: life.create(spec)),
        ("PUT", "update", "UPDATE_COMPLETE", lambda: life.update(spec.but(max_count=3))),
        ("DELETE", "delete", "DELETE_COMPLETE", life.delete),
    )
    for method, operation, end, operate in operations:
        base.control.reset()
        if any(fault.then == "kill" for fault in faults[method]):
            # A new function takes seconds to start on a busy machine, and is to find the operation at work.
            base.control.delay(cluster.name, operation, RESTART_S)
        for fault in faults[method]:
            base.control.fault(fault)
        assert operate() == end, life.story()
        assert base.control.unused() == []
        accepted = [
            call
            for call in base.control.calls()
            if call.method == method and call.status == 202 and "dryrun=true" not in call.path
        ]
        assert len(accepted) <= 1, accepted
    assert cluster.status() == GONE


@pytest.mark.parametrize("kind", FAULTS)
def test_calls_and_looks(life: Life, cluster: Cluster, base: Base, kind: str) -> None:
    """The call that changes something is hit, and the second look at the cluster, in each operation."""
    looks = [Fault(method="GET", path=f"^/v3/clusters/{cluster.name}[?]", after=1, **fields) for fields in FAULTS[kind]]
    whole_life(
        life,
        cluster,
        base,
        {
            method: (*(Fault(method=method, path=r"^(?!.*dryrun=true)", **fields) for fields in FAULTS[kind]), *looks)
            for method in ("POST", "PUT", "DELETE")
        },
    )


def test_response_url_refuses(life: Life, cluster: Cluster, base: Base) -> None:
    """The first answers to CloudFormation are lost on the way, one of them with the function that sent it."""
    # ParallelCluster has custom resources of its own in the cluster's stack.
    answers = Fault(target="response", path=f"x-stack={life.name}$")
    faults = (
        replace(answers, status=503, times=2),
        replace(answers, then="drop"),
        replace(answers, then="kill"),
        # It arrives; the function that sent it is killed before it can say so, and tries again.
        replace(answers, forward=True, then="kill"),
    )
    base.control.fault(faults[-1])
    assert life.create(StackSpec(cluster.name)) == "CREATE_COMPLETE", life.story()
    base.control.reset()
    for fault in faults[:2]:
        base.control.fault(fault)
    assert life.update(StackSpec(cluster.name, max_count=3)) == "UPDATE_COMPLETE", life.story()
    assert base.control.unused() == []
    for fault in faults[1:3]:
        base.control.fault(fault)
    assert life.delete() == "DELETE_COMPLETE", life.story()
    assert base.control.unused() == []
    assert cluster.status() == GONE


def test_version_unlike_ours(life: Life, cluster: Cluster, base: Base) -> None:
    """The API makes clusters of another version: the creation fails and says so, and nothing is left."""
    base.control.fault(Fault(forward=True, then="pass", version="3.15.0", times=0))
    assert life.create(StackSpec(cluster.name)) == "ROLLBACK_COMPLETE", life.story()
    assert "3.15.0" in life.failures()[0]
    assert cluster.status() == GONE
    base.control.reset()
    assert life.delete() == "DELETE_COMPLETE"
    assert life.create(StackSpec(cluster.name)) == "CREATE_COMPLETE", life.story()
    base.control.fault(Fault(forward=True, then="pass", version="3.15.0", times=0))
    assert life.update(StackSpec(cluster.name, max_count=3)).startswith("UPDATE_ROLLBACK"), life.story()
    assert "3.15.0" in life.failures()[-1]
    assert cluster.max_count() == 2


def test_api_is_away(life: Life, cluster: Cluster, base: Base) -> None:
    """Nothing answers for a while in the middle of a creation."""
    base.control.delay(cluster.name, "create", 2)
    life.create(StackSpec(cluster.name), wait=False)
    cluster.until("CREATE_IN_PROGRESS")
    base.control.fault(Fault(then="answer", status=503, message="Service Unavailable", times=0))
    time.sleep(8)
    assert life.status() == "CREATE_IN_PROGRESS"
    base.control.reset()
    assert life.settled() == "CREATE_COMPLETE", life.story()

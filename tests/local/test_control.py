"""Instructions as values: which are refused, and which request a fault hits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from local.control.gate import Gate, Queue, Receive, Send, target_of
from local.control.model import Fault, InvalidInstruction, Outcome, Target, read


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        (Outcome, {"cluster": "a", "operation": "rename"}, "operation is 'rename'"),
        (Outcome, {"cluster": "a", "operation": "delete", "result": "silent"}, "silent"),
        (Outcome, {"cluster": "a", "operation": "create", "delay": 1}, "'delay'"),
        (Fault, {"method": "("}, "no regular expression"),
        (Fault, {"then": "pass"}, "without forward"),
    ],
)
def test_instructions_that_are_refused(kind: Any, given: dict[str, Any], said: str) -> None:  # noqa: ANN401 - a class
    with pytest.raises(InvalidInstruction, match=said):
        read(kind, given)


def test_faults_let_pass_hit_and_are_used_up() -> None:
    faults: Queue[Fault] = Queue()
    faults.add(Fault(method="GET|PUT", path="/v3/clusters/a[?]", after=1, times=2))

    def hit(target: Target, method: str) -> bool:
        return faults.take(lambda fault: fault.hits(target, method, "/v3/clusters/a?region=us-east-1")) is not None

    assert not hit("api", "POST")
    assert not hit("response", "PUT")
    assert [hit("api", "GET") for _ in range(4)] == [False, True, True, False]
    assert faults.pending() == []


def test_what_the_gate_looks_at() -> None:
    assert target_of("/_aws/execute-api/abc/prod/v3/clusters/a", "region=x") == ("api", "/v3/clusters/a?region=x")
    assert target_of("/_ministack/cfn-response/t", "x-stack=s") == ("response", "/_ministack/cfn-response/t?x-stack=s")
    assert target_of("/bucket/key", "") is None


@pytest.mark.parametrize(
    ("fault", "answered", "inside"),
    [
        (None, (202, b'{"version": "1"}'), 1),
        (Fault(status=429, message="slow down"), (429, b'{"message": "slow down"}'), 0),
        (Fault(forward=True, status=504, message="late"), (504, b'{"message": "late"}'), 1),
        (Fault(forward=True, then="pass", version="2"), (202, b'{"version": "2"}'), 1),
    ],
)
def test_the_gate_answers(fault: Fault | None, answered: tuple[int, bytes], inside: int) -> None:
    reached: list[str] = []
    sent: list[dict[str, Any]] = []

    async def inner(scope: dict[str, Any], _receive: Receive, send: Send) -> None:
        reached.append(scope["path"])
        await send({"type": "http.response.start", "status": 202, "headers": []})
        await send({"type": "http.response.body", "body": b'{"version": "1"}'})

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    faults: Queue[Fault] = Queue()
    if fault:
        faults.add(fault)
    gate = Gate(inner, faults, lambda _part: None)
    scope = {"type": "http", "path": "/_aws/execute-api/a/prod/v3/clusters", "method": "POST", "query_string": b""}
    asyncio.run(gate(scope, receive, send))
    assert (sent[0]["status"], sent[1]["body"]) == answered
    assert len(reached) == inside
    assert [(call.status, call.fault) for call in gate.calls] == [(answered[0], fault is not None)]

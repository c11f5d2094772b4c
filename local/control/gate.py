"""The gate that requests to the API, response URLs and wait conditions pass: an ASGI application around the emulator.

It runs in front of the emulator's API Gateway, so its answers are those of the network or of API Gateway itself.
Without a fault a request passes unchanged.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from local.control.model import Call, Fault, Outcome, Target

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_API = re.compile(r"^/_aws/execute-api/[^/]+/[^/]+(?P<rest>/.*)")
_PREFIXES: tuple[tuple[str, Target], ...] = (
    ("/_ministack/cfn-response/", "response"),
    ("/_ministack/cfn-signal/", "signal"),
)
_KEPT_CALLS = 2000
# Longer than any body that follows: the client sees a connection that ended in the middle.
_PROMISED = 4096

_Instruction = TypeVar("_Instruction", Fault, Outcome)


class Queue(Generic[_Instruction]):
    """Instructions in the order of their arrival, each until it is used up; safe to use from several threads."""

    def __init__(self) -> None:
        self._instructions: list[tuple[_Instruction, list[int]]] = []
        self._lock = threading.Lock()

    def add(self, instruction: _Instruction) -> None:
        self._instructions.append((instruction, [0]))

    def clear(self) -> None:
        self._instructions.clear()

    def pending(self) -> list[_Instruction]:
        """Instructions that are not used up."""
        return [one for one, seen in self._instructions if not one.times or seen[0] < one.after + one.times]

    def take(self, matches: Callable[[_Instruction], bool]) -> _Instruction | None:
        """The first instruction that matches, counted as used. One that lets a request pass (`after`) counts it."""
        with self._lock:
            for one, seen in self._instructions:
                if (not one.times or seen[0] < one.after + one.times) and matches(one):
                    seen[0] += 1
                    if seen[0] > one.after:
                        return one
        return None


def target_of(path: str, query: str) -> tuple[Target, str] | None:
    """What a request is for, and its path as faults match it; None for everything that the gate leaves alone."""
    query = f"?{query}" if query else ""
    if found := _API.match(path):
        return "api", found["rest"] + query
    return next(((target, path + query) for prefix, target in _PREFIXES if path.startswith(prefix)), None)


class Gate:
    """The application with faults in front of it.

    Args:
        inner: the emulator.
        faults: the faults that were asked for.
        kill: ends the processes of functions whose handler's name has this part.
    """

    def __init__(self, inner: Application, faults: Queue[Fault], kill: Callable[[str], None]) -> None:
        self._inner, self._faults, self._kill = inner, faults, kill
        self.calls: deque[Call] = deque(maxlen=_KEPT_CALLS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        aim = None
        if scope["type"] == "http":
            aim = target_of(scope["path"], scope.get("query_string", b"").decode("latin-1"))
        if aim is None:
            await self._inner(scope, receive, send)
            return
        target, path = aim
        method = scope["method"]
        fault = self._faults.take(lambda one: one.hits(target, method, path))
        if fault is None:
            answer = _Answer(send)
            await self._inner(scope, receive, answer)
            status = answer.status
        else:
            status = await self._hit(fault, scope, receive, send)
        if target == "api":
            self.calls.append(Call(method, path, status, fault is not None))

    async def _hit(self, fault: Fault, scope: Scope, receive: Receive, send: Send) -> int:
        answer = _Answer()
        if fault.forward:
            await self._inner(scope, receive, answer)
        else:
            await body_of(receive)
        await asyncio.sleep(fault.delay_s)
        if fault.then == "pass":
            body = _with_version(answer.body, fault.version) if fault.version else answer.body
            await respond(send, answer.status, body)
            return answer.status
        if fault.then == "answer":
            await respond(send, fault.status, json.dumps({"message": fault.message}).encode())
            return fault.status
        if fault.then == "kill":
            self._kill(fault.function)
        # The end of the application without the bytes that it promised closes the connection.
        await respond(send, 200, b"{", promised=_PROMISED)
        return 0


class _Answer:
    """Keeps the emulator's answer, and passes it on if `send` is given."""

    def __init__(self, send: Send | None = None) -> None:
        self.status, self.body, self._send = 0, b"", send

    async def __call__(self, message: dict[str, Any]) -> None:
        self.status = message.get("status", self.status)
        self.body += message.get("body", b"")
        if self._send:
            await self._send(message)


async def body_of(receive: Receive) -> bytes:
    """The whole body of a request."""
    body, more = b"", True
    while more and (message := await receive())["type"] == "http.request":
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


async def respond(send: Send, status: int, body: bytes, promised: int = 0) -> None:
    """Send a JSON answer; with `promised`, the length in its header is larger than the body."""
    headers = [(b"content-type", b"application/json"), (b"content-length", str(promised or len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": bool(promised)})


def _with_version(body: bytes, version: str) -> bytes:
    def changed(found: dict[str, Any]) -> dict[str, Any]:
        return found | {"version": version} if "version" in found else found

    try:
        return json.dumps(json.loads(body, object_hook=changed)).encode()
    except ValueError:
        return body

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

from local.steering.model import FOREVER, Call, Fault, Outcome, Target

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


_Wish = TypeVar("_Wish", Fault, Outcome)


class Queue(Generic[_Wish]):
    """Wishes in the order of their arrival, each until it is used up; safe to use from several threads."""

    def __init__(self) -> None:
        self._wishes: list[tuple[_Wish, list[int]]] = []
        self._lock = threading.Lock()

    def add(self, wish: _Wish) -> None:
        with self._lock:
            self._wishes.append((wish, [0]))

    def clear(self) -> None:
        with self._lock:
            self._wishes.clear()

    def pending(self) -> list[_Wish]:
        """Wishes that are not used up."""
        with self._lock:
            return [wish for wish, seen in self._wishes if not _used_up(wish, seen[0])]

    def take(self, matches: Callable[[_Wish], bool]) -> _Wish | None:
        """The first wish that matches, counted as used. One that lets a request pass (`after`) counts it."""
        with self._lock:
            for wish, seen in self._wishes:
                if not _used_up(wish, seen[0]) and matches(wish):
                    seen[0] += 1
                    if seen[0] > _after(wish):
                        return wish
        return None


def _after(wish: Fault | Outcome) -> int:
    return wish.after if isinstance(wish, Fault) else 0


def _used_up(wish: Fault | Outcome, seen: int) -> bool:
    return wish.times != FOREVER and seen >= _after(wish) + wish.times


def hits(target: Target, method: str, path: str) -> Callable[[Fault], bool]:
    """Whether a fault hits this request."""

    def matches(fault: Fault) -> bool:
        same = fault.target == target and re.fullmatch(fault.method, method)
        return bool(same and re.search(fault.path, path))

    return matches


def target_of(path: str, query: str) -> tuple[Target, str] | None:
    """What a request is for, and its path as faults match it; None for everything that the gate leaves alone."""
    found = _API.match(path)
    if found:
        return "api", found["rest"] + (f"?{query}" if query else "")
    whole = path + (f"?{query}" if query else "")
    return next(((target, whole) for prefix, target in _PREFIXES if path.startswith(prefix)), None)


class Gate:
    """The application with faults in front of it.

    Args:
        inner: the emulator.
        faults: the faults that were asked for.
        kill: ends the processes of functions whose handler's name has this part.
    """

    def __init__(self, inner: Application, faults: Queue[Fault], kill: Callable[[str], None]) -> None:
        self._inner = inner
        self._faults = faults
        self._kill = kill
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
        fault = self._faults.take(hits(target, method, path))
        if fault is None:
            status = [0]
            await self._inner(scope, receive, _watched(send, status))
        else:
            status = [await self._hit(fault, scope, receive, send)]
        self.calls.append(Call(target, method, path, status[0], fault is not None))

    async def _hit(self, fault: Fault, scope: Scope, receive: Receive, send: Send) -> int:
        answer = _Answer()
        if fault.forward:
            await self._inner(scope, receive, answer.keep)
        else:
            await _drain(receive)
        if fault.delay_s:
            await asyncio.sleep(fault.delay_s)
        if fault.then == "pass":
            body = _with_version(answer.body, fault.version) if fault.version else answer.body
            await _respond(send, answer.status, body)
            return answer.status
        if fault.then == "answer":
            await _respond(send, fault.status, json.dumps({"message": fault.message}).encode())
            return fault.status
        if fault.then == "kill":
            self._kill(fault.function)
        await _break_off(send)
        return 0


class _Answer:
    """The emulator's answer, kept back."""

    def __init__(self) -> None:
        self.status = 0
        self.body = b""

    async def keep(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message["type"] == "http.response.body":
            self.body += message.get("body", b"")


def _watched(send: Send, status: list[int]) -> Send:
    async def watch(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            status[0] = message["status"]
        await send(message)

    return watch


async def _drain(receive: Receive) -> None:
    while (message := await receive())["type"] == "http.request":
        if not message.get("more_body"):
            break


async def _respond(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _break_off(send: Send) -> None:
    # The end of the application without the bytes that it promised closes the connection.
    headers = [(b"content-type", b"application/json"), (b"content-length", str(_PROMISED).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"{", "more_body": True})


def _with_version(body: bytes, version: str) -> bytes:
    def changed(value: Any) -> Any:  # noqa: ANN401 - JSON
        if isinstance(value, dict):
            return {key: version if key == "version" else changed(item) for key, item in value.items()}
        return [changed(item) for item in value] if isinstance(value, list) else value

    try:
        return json.dumps(changed(json.loads(body))).encode()
    except ValueError:
        return body

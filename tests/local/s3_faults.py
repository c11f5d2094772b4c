"""A proxy before S3 that damages, truncates, throttles and resets, as networks and S3 do."""

from __future__ import annotations

import http.client
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

ERROR = "<?xml version='1.0' encoding='UTF-8'?><Error><Code>{}</Code><Message>{}</Message></Error>"


@dataclass
class Fault:
    """What happens to the next `times` requests whose "METHOD PATH" matches `of`.

    `kind` is corrupt (one byte of the body of the request, or else of the answer), truncate (half of the answer), reset
    (half of the request is read), lost (the request goes on, and its answer is not sent), a status with S3's error code
    (`503 SlowDown`), or a function to call before the request goes on.
    """

    of: str
    kind: str | Callable[[], None]
    times: int = 1


@dataclass
class Proxy:
    """The proxy: `faults` to come and the `requests` seen."""

    endpoint: str = ""
    faults: list[Fault] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    listen: Callable[[], None] = field(default=lambda: None)
    close: Callable[[], None] = field(default=lambda: None)

    def next(self, request: str) -> str | Callable[[], None]:
        """The fault of a request, or nothing."""
        with self.lock:
            self.requests.append(request)
            for fault in self.faults:
                if fault.times and re.search(fault.of, request):
                    fault.times -= 1
                    return fault.kind
        return ""

    def seen(self, pattern: str) -> int:
        """How many requests matched."""
        return sum(bool(re.search(pattern, request)) for request in self.requests)


def _handler(proxy: Proxy, upstream: str) -> type[BaseHTTPRequestHandler]:
    address = urlsplit(upstream)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def _serve(self) -> None:
            kind = proxy.next(f"{self.command} {self.path}")
            length = int(self.headers.get("Content-Length") or 0)
            if kind == "reset":
                self.rfile.read(length // 2)
                self._reset()
                return
            body = bytearray(self.rfile.read(length))
            if callable(kind):
                kind()
            elif kind[:1].isdigit():
                status, code = kind.split()
                self._answer(int(status), [], ERROR.format(code, code).encode())
                return
            elif kind == "corrupt" and body:
                body[len(body) // 2] ^= 1
                kind = ""
            upstream = http.client.HTTPConnection(address.hostname or "", address.port or 80, timeout=120)
            upstream.request(self.command, self.path, bytes(body), dict(self.headers.items()))
            got = upstream.getresponse()
            answer = bytearray(got.read())
            upstream.close()
            if kind == "lost":
                self._reset()
                return
            if kind == "corrupt":
                answer[len(answer) // 2] ^= 1
            self._answer(got.status, got.getheaders(), bytes(answer), cut=kind == "truncate")

        def _reset(self) -> None:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True

        def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes, *, cut: bool = False) -> None:
            self.send_response_only(status)
            lengths = [value for name, value in headers if name.lower() == "content-length"]
            for name, value in headers:
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.send_header("Content-Length", lengths[0] if self.command == "HEAD" and lengths else str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if cut else body)
            self.close_connection = cut

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _serve  # noqa: N815 - http.server's names

    return Handler


@contextmanager
def proxy_to(upstream: str) -> Iterator[Proxy]:
    """A running proxy to an S3 endpoint; `proxy.listen` starts it again after `proxy.close`."""
    proxy = Proxy()
    port = 0

    def listen() -> None:
        nonlocal port
        server = ThreadingHTTPServer(("127.0.0.1", port), _handler(proxy, upstream))
        port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def close() -> None:
            server.shutdown()
            server.server_close()

        proxy.close = close

    proxy.listen = listen
    listen()
    proxy.endpoint = f"http://127.0.0.1:{port}"
    try:
        yield proxy
    finally:
        proxy.close()

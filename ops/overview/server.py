"""Serves the page on loopback."""

from __future__ import annotations

import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ops.overview.page import overview
from ops.overview.prometheus import Prometheus
from ops.problem import Problem
from ops.report import Report, Tone, html

REFRESH = 30
"""Seconds after which a browser loads the page again."""


def server(environment: str, prometheus: Prometheus, port: int) -> ThreadingHTTPServer:
    """A server of the page on 127.0.0.1; 0 chooses a free port.

    Raises:
        Problem: the port is in use.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            # Another site whose name resolves to 127.0.0.1 must not read the page.
            host = self.headers.get("Host", "").rsplit(":", 1)[0]
            if self.path != "/" or host not in ("127.0.0.1", "localhost"):
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            content = page(environment, prometheus, REFRESH).encode()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("Content-Security-Policy", "frame-ancestors 'none'")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Requests are not worth a line."""

    try:
        return ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise Problem(f"Port {port} of 127.0.0.1 cannot be used: {error.strerror}. Choose another: --port.") from error


def page(environment: str, prometheus: Prometheus, refresh: int) -> str:
    """The page, or one that says why there is none."""
    try:
        return html(overview(environment, prometheus, time.time(), refresh))
    except Problem as problem:
        return html(Report(f"{environment}: overview", str(problem), Tone.BAD, {}, refresh=refresh))

"""A server that answers as the recorded Prometheus did (record.py)."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "answers.json").read_text())
NOW: float = RECORDED["time"]


@contextmanager
def recorded(answers: dict[str, Any] | None = None) -> Iterator[str]:
    """The server's address. A query without an answer is an error, as of wrong PromQL."""
    known = RECORDED["answers"] if answers is None else answers

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            key = " ".join([url.path.rpartition("/")[2], *parse_qs(url.query).get("query", [])])
            found = known.get(key)
            error = {"status": "error", "errorType": "bad_data", "error": f"no answer to {key}"}
            body = json.dumps(error if found is None else {"status": "success", "data": found}).encode()
            self.send_response(400 if found is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()

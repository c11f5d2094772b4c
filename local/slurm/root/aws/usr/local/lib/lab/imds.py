"""Imitates EC2's instance metadata service, IMDSv2: a token from PUT /latest/api/token, then GET of metadata.

`imds.py FILE`: FILE maps each node's address to {path: text}. The standard library only.
"""

from __future__ import annotations

import json
import secrets
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

ADDRESS = ("169.254.169.254", 80)
LONGEST_TOKEN_S = 21600
TOKENS: set[str] = set()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    nodes: ClassVar[dict[str, dict[str, str]]] = {}

    def answer(self, status: int, text: str = "") -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self) -> None:
        life = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
        if self.path != "/latest/api/token":
            self.answer(404)
        elif not life.isdigit() or not 1 <= int(life) <= LONGEST_TOKEN_S:
            self.answer(400)
        else:
            token = secrets.token_urlsafe(40)
            TOKENS.add(token)
            self.answer(200, token)

    def do_GET(self) -> None:
        if self.headers.get("X-aws-ec2-metadata-token") not in TOKENS:
            self.answer(401)
            return
        values = self.nodes.get(self.client_address[0], {})
        path = self.path.removeprefix("/latest/").strip("/")
        below = sorted({name[len(path) + 1 :].split("/")[0] for name in values if name.startswith(path + "/")})
        if path in values:
            self.answer(200, values[path])
        elif below:
            self.answer(200, "\n".join(below))
        else:
            self.answer(404)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    Handler.nodes = json.loads(Path(sys.argv[1]).read_text())
    ThreadingHTTPServer(ADDRESS, Handler).serve_forever()

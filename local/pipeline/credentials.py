"""The container's credential endpoint: where a build finds the session of its project's role, as in CodeBuild."""

from __future__ import annotations

import json
import secrets
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from local.pipeline.roles import Session

HOST = "127.0.0.1"
_YEARS_AHEAD = "2099-01-01T00:00:00Z"
"""SDKs ask again before this; the session of the world itself lasts an hour, as a role's does."""


class Endpoint:
    """A server on loopback; each build has an address and a token of its own."""

    def __init__(self) -> None:
        self._sessions: dict[str, tuple[str, Session]] = {}
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                token, session = endpoint._sessions.get(self.path, ("", None))
                allowed = session is not None and secrets.compare_digest(self.headers.get("Authorization", ""), token)
                body = _answer(session) if session is not None and allowed else b"{}"
                self.send_response(200 if allowed else 403)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Endpoint:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def serve(self, session: Session) -> dict[str, str]:
        """Variables that lead a build to its credentials."""
        path, token = f"/{secrets.token_hex(8)}", secrets.token_hex(16)
        self._sessions[path] = (token, session)
        return {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://{HOST}:{self._server.server_port}{path}",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": token,
        }


def _answer(session: Session) -> bytes:
    return json.dumps(
        {
            "RoleArn": session.role_arn,
            "AccessKeyId": session.key,
            "SecretAccessKey": session.secret,
            "Token": session.token,
            "Expiration": _YEARS_AHEAD,
        }
    ).encode()

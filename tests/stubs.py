"""Commands, boto3 clients and an HTTP server that answer what a test says.

botocore checks the calls of the clients, and their answers, against its models of AWS.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import boto3
from botocore.stub import Stubber


def fake_command(path: Path, body: str) -> Path:
    """Write a script: bash, unless it begins with #!. Replaced at once: an empty script would succeed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.write_text(body if body.startswith("#!") else f"#!/bin/bash\n{body}\n")
    new.chmod(0o755)
    return new.replace(path)


def activated(service: str, region: str = "us-east-1") -> tuple[Any, Stubber]:
    """A client and its active stub."""
    session: Any = boto3.Session("id", "secret", region_name=region)
    client = session.client(service)
    stub = Stubber(client)
    stub.activate()
    return client, stub


@contextmanager
def stubbed(service: str, region: str = "us-east-1") -> Iterator[tuple[Any, Stubber]]:
    """A client and its stub. At the end, every queued answer must have been taken."""
    client, stub = activated(service, region)
    yield client, stub
    stub.assert_no_pending_responses()


class Server:
    """Replays answers in order, the last one repeatedly, and records the requests. Redirections lead to it again.

    Attributes:
        requests: method, path, query, headers and body.
    """

    def __init__(self, path: str) -> None:
        self.answers: list[tuple[int, Any]] = [(200, {})]
        self.targets: list[str] = []
        self.requests: list[tuple[str, str, dict[str, str], dict[str, str], Any]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                server.targets.append(self.path)
                target = urlsplit(self.path)
                parsed = json.loads(body) if body else None
                query = dict(parse_qsl(target.query))
                server.requests.append((self.command, target.path, query, dict(self.headers), parsed))
                status, answer = server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]
                if status == 0:
                    self.close_connection = True
                    return
                content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", server.url)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 - the names that http.server asks for

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}{path}"
        Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def methods(self) -> list[str]:
        return [request[0] for request in self.requests]

    @property
    def bodies(self) -> list[Any]:
        return [request[4] for request in self.requests]


@contextmanager
def served(path: str) -> Iterator[Server]:
    """A server whose `url` ends with a path."""
    server = Server(path)
    yield server
    server.http.shutdown()
    server.http.server_close()

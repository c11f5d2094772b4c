"""Receivers of notifications on a node of the laboratory: webhook, SNS and mail. Python 3.11's standard library only.

    sinks.py FILE

Each message is a line of JSON in FILE: when, how (webhook, sns or mail), and its text. Port 8080 is HTTP: /webhook
takes a message, /sns answers as SNS does to Publish, anything else is 404. Port 2525 is SMTP without TLS (RFC 5321).
"""

import email
import email.policy
import json
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer

LOCK = threading.Lock()
PUBLISHED = (
    b'<PublishResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/"><PublishResult><MessageId>1</MessageId>'
    b"</PublishResult><ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></PublishResponse>"
)


def keep(how: str, text: object) -> None:
    """Add a message to the file."""
    with LOCK, Path(sys.argv[1]).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"at": time.time(), "how": how, "text": text}) + "\n")


class Http(BaseHTTPRequestHandler):
    """Webhook and SNS."""

    def do_POST(self) -> None:
        """Keep a message."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer, status = b"", 200
        if self.path == "/webhook":
            keep("webhook", json.loads(body))
        elif self.path.rstrip("/") == "/sns":
            keep("sns", {key: value[0] for key, value in urllib.parse.parse_qs(body.decode()).items()})
            answer = PUBLISHED
        else:
            status = 404
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """No line for each request."""


class Smtp(StreamRequestHandler):
    """As much of SMTP as a client needs that sends one mail."""

    def handle(self) -> None:
        """One connection."""
        self.wfile.write(b"220 sink\r\n")
        while line := self.rfile.readline():
            command = line.split()[0].upper() if line.split() else b""
            self.wfile.write({b"DATA": b"354 go on\r\n", b"QUIT": b"221 bye\r\n"}.get(command, b"250 ok\r\n"))
            if command == b"QUIT":
                return
            if command == b"DATA":
                text = b""
                while (line := self.rfile.readline()) not in (b".\r\n", b""):
                    text += line.removeprefix(b".")
                mail = email.message_from_bytes(text, policy=email.policy.default)
                body = mail.get_body(("plain", "html"))
                keep("mail", {"subject": mail["Subject"], "to": mail["To"], "text": body.get_content() if body else ""})
                self.wfile.write(b"250 kept\r\n")


if __name__ == "__main__":
    ThreadingTCPServer.allow_reuse_address = True
    threading.Thread(target=ThreadingTCPServer(("127.0.0.1", 2525), Smtp).serve_forever, daemon=True).start()
    ThreadingHTTPServer(("127.0.0.1", 8080), Http).serve_forever()

"""tensorboard_socket.py LOGS SOCKET: TensorBoard on a Unix socket that only its user can open.

TensorBoard's own command listens on TCP, and its loader of event files on another TCP port: on a node that jobs share,
every user could read both. Needs tensorboard, whose web server (werkzeug) knows Unix sockets.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

try:
    from tensorboard import program
    from werkzeug import serving
except ImportError as error:
    raise SystemExit(f"tensorboard_socket.py: {sys.executable} lacks {error.name}: give --image or --python") from error


class UnixServer:
    """What tensorboard.program needs of a server."""

    def __init__(self, application: Any, flags: Any) -> None:  # noqa: ANN401, ARG002 -- TensorBoard is untyped
        os.umask(0o177)
        self._server = serving.make_server(f"unix://{sys.argv[2]}", 0, application, threaded=True)
        os.umask(0o077)

    def serve_forever(self) -> None:
        """Answer requests."""
        self._server.serve_forever()

    def get_url(self) -> str:
        """Where it listens."""
        return f"unix://{sys.argv[2]}"

    def print_serving_message(self) -> None:
        """The job prints how to connect."""


def main() -> None:
    """Serve until a signal ends the process."""
    if len(sys.argv) != 3:
        raise SystemExit("usage: tensorboard_socket.py LOGS SOCKET")
    board = program.TensorBoard(server_class=UnixServer)
    board.configure(argv=["tensorboard", "--logdir", sys.argv[1], "--load_fast", "false"])
    board.launch()
    signal.pause()


if __name__ == "__main__":
    main()

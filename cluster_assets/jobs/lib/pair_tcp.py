"""pair_tcp.py FIRST SECOND PORT [SECONDS [STREAMS]]: measures TCP between two nodes, both directions at once.

Runs on each of them. Each prints the rate at which it received: `pair-test: NODE received 1.234 GB/s`. The first node
listens on its own address only, and serves only those that know the job's step.

The standard library only, Python 3.9 or later. Exit codes: 0 measured; 1 no connection.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time

CONNECT_S = 10
WARM_UP_S = 0.5
"""Not counted: the start of TCP, and the burst that a shaper lets through."""
_CHUNK = bytes(1 << 18)


def connections(first: str, mine: bool, port: int, streams: int, word: bytes) -> list[socket.socket]:
    """The open streams between the nodes, on the first node's port."""
    until = time.monotonic() + CONNECT_S
    found: list[socket.socket] = []
    if mine:
        with socket.create_server((socket.gethostbyname(first), port), backlog=streams) as server:
            while len(found) < streams:
                server.settimeout(max(0.1, until - time.monotonic()))
                stream, _ = server.accept()
                stream.settimeout(CONNECT_S)
                if stream.recv(len(word), socket.MSG_WAITALL) == word:
                    found.append(stream)
                else:
                    stream.close()
        return found
    while len(found) < streams:
        try:
            stream = socket.create_connection((first, port), timeout=CONNECT_S)
            stream.sendall(word)
            found.append(stream)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
    return found


def send(stream: socket.socket, until: float) -> None:
    """Send until then."""
    try:
        while time.monotonic() < until:
            stream.sendall(_CHUNK)
    except OSError:
        pass  # the other node has ended: its figure shows it


def receive(stream: socket.socket, start: float, until: float, counts: list[int]) -> None:
    """Add the bytes that arrive between start and until; read on until the other node ends."""
    buffer, count = bytearray(1 << 18), 0
    try:
        while size := stream.recv_into(buffer):
            count += size if start <= time.monotonic() <= until else 0
    except OSError:
        pass  # see above
    counts.append(count)


def main(arguments: list[str]) -> int:
    """The command line; see the module's docstring."""
    first, second, port, seconds, streams = arguments + ["2", "4"][len(arguments) - 3 :]
    me = os.environ["SLURMD_NODENAME"]
    word = f"{os.environ['SLURM_JOB_ID']}.{os.environ['SLURM_STEP_ID']}.".ljust(32).encode()
    try:
        streams_open = connections(first, me == first, int(port), int(streams), word)
    except OSError as problem:
        sys.stderr.write(f"pair-test: {me} has no connection with {second if me == first else first}: {problem}\n")
        return 1
    start = time.monotonic() + WARM_UP_S
    until, counts = start + float(seconds), list[int]()
    for stream in streams_open:
        stream.settimeout(CONNECT_S)
    senders = [threading.Thread(target=send, args=(stream, until + WARM_UP_S)) for stream in streams_open]
    readers = [threading.Thread(target=receive, args=(stream, start, until, counts)) for stream in streams_open]
    for thread in (*senders, *readers):
        thread.start()
    for thread in senders:
        thread.join()
    for stream in streams_open:
        stream.shutdown(socket.SHUT_WR)
    for thread in readers:
        thread.join()
    print(f"pair-test: {me} received {sum(counts) / float(seconds) / 1e9:.6f} GB/s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

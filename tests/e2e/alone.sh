#!/usr/bin/env bash
# Switches loopback on in its network namespace, says so, and keeps the namespace until its input ends.
set -euo pipefail

python3 - <<'PY'
import fcntl, socket, struct

SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1
with socket.socket() as channel:
    fcntl.ioctl(channel, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
PY
echo ready
cat

#!/usr/bin/env bash
# Runs a command of the local default in a network namespace of its own, after loopback was switched on in it, and then
# `down`: the namespace ends with this script, so the emulator must end inside it.
set -euo pipefail

readonly state="$1"
shift

python3 - <<'PY'
import fcntl, socket, struct

SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1
with socket.socket() as channel:
    fcntl.ioctl(channel, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
PY

"$@"
# $@ is: python -m cli up FILE --state STATE --port PORT
exec "$1" -m cli down "$5" --state "$state"

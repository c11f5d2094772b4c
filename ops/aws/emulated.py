"""Whether AWS is the emulated one, and how a report says so."""

from typing import Any
from urllib.parse import urlsplit

MARK = " (simulated: emulated AWS)"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def emulated(client: Any) -> bool:  # noqa: ANN401 - a boto3 client
    """Whether a client's endpoint is on this machine, also in a pipeline of `trainyard promote` (`--on aws`)."""
    return urlsplit(client.meta.endpoint_url).hostname in _LOOPBACK

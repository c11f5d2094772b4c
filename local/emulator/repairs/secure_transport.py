"""A bucket that asks for TLS refuses everything, since the emulator speaks plain HTTP on loopback.

What enforceSSL asks for holds on AWS; here the condition key answers as if the request had come by TLS.
"""

from __future__ import annotations

from typing import Any

from ministack.core import iam_evaluator


def install() -> None:
    """Let aws:SecureTransport be true."""
    original = iam_evaluator._resolve_condition_key

    def resolve(key: str, context: Any) -> Any:
        return "true" if key.lower() == "aws:securetransport" else original(key, context)

    iam_evaluator._resolve_condition_key = resolve

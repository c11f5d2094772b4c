"""Steering of a running emulator from outside: how operations on clusters end, and what goes wrong on the way.

    steer = Steer(emulator)
    steer.create_fails("demo", "Failed to execute OnNodeConfigured script 1", after_s=2)
    steer.fault(Fault(then="answer", status=504, forward=True, method="POST"))

Nothing is steered unless a client asks for it; `reset` takes everything back. docs/testing.md shows how.
"""

from __future__ import annotations

from local.steering.client import Steer, SteeringRefused
from local.steering.model import Call, Fault, Limit, Outcome, SteeringError

__all__ = ["Call", "Fault", "Limit", "Outcome", "Steer", "SteeringError", "SteeringRefused"]

"""Steering of a running emulator from outside: how operations on clusters end, and what goes wrong on the way.

    steer = Steer(emulator)
    steer.create_fails("demo", "Failed to execute OnNodeConfigured script 1", after_s=2)
    steer.fault(Fault(then="answer", status=504, forward=True, method="POST"))

Nothing is steered unless somebody asks for it, and `reset` takes everything back. local/README.md has the list.
"""

from __future__ import annotations

from local.steering.client import Call, Steer, SteeringRefused
from local.steering.model import Fault, Limit, Outcome, SteeringError

__all__ = ["Call", "Fault", "Limit", "Outcome", "Steer", "SteeringError", "SteeringRefused"]

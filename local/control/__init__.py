"""Control of a running emulator from outside: how operations on clusters end, and what goes wrong on the way.

    control = Control(emulator)
    control.create_fails("demo", "Failed to execute OnNodeConfigured script 1", after_s=2)
    control.fault(Fault(then="answer", status=504, forward=True, method="POST"))

Nothing changes unless a client asks for it; `reset` takes everything back. docs/testing.md shows how.
"""

from __future__ import annotations

from local.control.client import Control, ControlRefused
from local.control.model import Call, ControlError, Fault, Limit, Outcome

__all__ = ["Call", "Control", "ControlError", "ControlRefused", "Fault", "Limit", "Outcome"]

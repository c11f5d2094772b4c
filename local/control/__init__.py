"""Control of a running emulator from outside: how operations on clusters end, and what goes wrong on the way.

    control = Control(emulator)
    control.fail_create("demo", "Failed to execute OnNodeConfigured script 1", after_s=2)
    control.fault(Fault(then="answer", status=504, forward=True, method="POST"))

Without instructions every operation succeeds. `reset` removes outcomes, faults, limits, numbers of jobs, agents that do
not answer and the recorded calls; nodes, fleet status and seeds stay. docs/testing.md has examples.
"""

from __future__ import annotations

from local.control.client import Control, InstructionRefused
from local.control.model import Call, Fault, InvalidInstruction, Limit, Outcome

__all__ = ["Call", "Control", "Fault", "InstructionRefused", "InvalidInstruction", "Limit", "Outcome"]

"""Exit statuses of every command. docs/cli.md is generated from `TABLE`."""

from __future__ import annotations

DONE = 0
NO = 1
WAITING = 3
FAILED = 4
INTERRUPTED = 130

TABLE = (
    (DONE, "Done. The answer is good: nothing changes, ready, passed, no drift, no faults."),
    (NO, "The answer is no: not ready, a check failed, drift, faults in a file, a failed action of a promotion."),
    (1, "`diff` only: safe changes."),
    (2, "`diff` only: disruptive changes. Nodes are stopped or drained, or the network is interrupted."),
    (3, "`diff` only: destructive changes. Data or the cluster itself are at stake."),
    (WAITING, "`promote` only: an approval is needed."),
    (FAILED, "Failed, without an answer: wrong use, missing credentials or tools, a failed deployment, an error."),
    (INTERRUPTED, "Interrupted."),
)
"""`exec` and `lab run` exit as the command that they run."""

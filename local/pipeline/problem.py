"""What ends a walk: a Problem before it has an outcome, ActionFailed within it."""

from ops.problem import Problem

__all__ = ["ActionFailed", "Problem"]


class ActionFailed(Exception):
    """An action of the pipeline failed; the message is its reason, for the table."""

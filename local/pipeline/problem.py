"""What ends a walk before it has an outcome: wrong use, or a pipeline that this executor does not cover."""


class Problem(Exception):
    """The message says what was given, what is allowed, and what to do."""


class ActionFailed(Exception):
    """An action of the pipeline failed; the message is its reason, for the table."""

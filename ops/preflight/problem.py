"""An end without a verdict that the user can do something about."""


class Problem(Exception):
    """The message is what the user reads."""

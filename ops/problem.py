"""The one exception for errors that a user can correct."""


class Problem(Exception):
    """The message says what is wrong and what to do next; commands print it without a traceback."""

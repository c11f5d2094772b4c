"""What goes wrong in a way that a user can mend."""


class Problem(Exception):
    """A message for people: what was found, and what to do next."""

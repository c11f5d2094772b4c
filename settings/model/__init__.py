"""The typed, frozen model of an environment file."""

from settings.model.environment import Environment

__all__ = ["Environment"]

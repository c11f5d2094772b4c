"""Environment files: parsed once into a frozen, typed model that is passed down."""

from settings.model import Environment

__all__ = ["Environment"]

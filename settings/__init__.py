"""Environment files: parsed once into a frozen, typed model that is passed down."""

from settings.faults import Fault, Faults
from settings.files import environment_file
from settings.loader import load
from settings.model import Environment

__all__ = ["Environment", "Fault", "Faults", "environment_file", "load"]

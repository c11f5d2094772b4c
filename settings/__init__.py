"""Environment files: parsed once into a frozen, typed model that is passed down."""

from settings.faults import Fault, Faults
from settings.files import UnknownName, environment_file
from settings.loader import load
from settings.model import Environment

__all__ = ["Environment", "Fault", "Faults", "UnknownName", "environment_file", "load"]

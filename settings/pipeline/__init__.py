"""Pipeline files: which environments follow each other, and who lets a change pass from one to the next."""

from settings.pipeline.files import pipeline_file
from settings.pipeline.loader import Promotion, Target, load
from settings.pipeline.model import Pipeline

__all__ = ["Pipeline", "Promotion", "Target", "load", "pipeline_file"]

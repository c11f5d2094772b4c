"""Pipeline files: the order of the environments, and who approves a change before it is deployed to the next one."""

from settings.files import pipeline_file
from settings.pipeline.loader import Promotion, Target, load
from settings.pipeline.model import Pipeline

__all__ = ["Pipeline", "Promotion", "Target", "load", "pipeline_file"]

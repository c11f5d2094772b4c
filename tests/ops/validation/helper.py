"""The head node's side, as a module: a program of the cluster, which is no package."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "cluster_assets" / "validation"))

import request_handler
import validation_results as results

__all__ = ["request_handler", "results"]

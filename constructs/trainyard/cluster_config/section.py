"""The shape of a rendered configuration."""

from __future__ import annotations

Section = dict[str, object]
"""A mapping of ParallelCluster's keys to strings, integers, booleans, sections, and lists of these."""

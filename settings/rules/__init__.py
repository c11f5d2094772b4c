"""The rules across fields: what types alone cannot say. One subject a module."""

from __future__ import annotations

from collections.abc import Iterator

from settings.model import Environment
from settings.rules import (
    associations,
    buckets,
    capacity,
    compute,
    images,
    lustre,
    models,
    mounts,
    names,
    network,
    openzfs,
    slurm,
    tags,
    volumes,
    windows,
)
from settings.rules.finding import Finding, Rule

MODULES = (
    *(names, tags, network, lustre, openzfs, associations, mounts, windows, buckets, images),
    *(compute, volumes, capacity, slurm, models),
)
RULES: tuple[Rule, ...] = tuple(rule for module in MODULES for rule in module.RULES)


def findings(environment: Environment, *, partial: bool = False) -> Iterator[Finding]:
    """What all rules find. With `partial`, a rule that needs an unsound field is passed over."""
    for rule in RULES:
        yield from rule(environment, partial)

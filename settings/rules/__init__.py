"""The rules across fields, which types cannot express. One subject per module; each lists its rules in `RULES`."""

from __future__ import annotations

from collections.abc import Iterator

from settings.model import Environment
from settings.rules import (
    access,
    compute,
    cost,
    file_systems,
    hooks,
    models,
    names,
    network,
    observability,
    parallelcluster,
    people,
    slurm,
    teams,
    usage,
)
from settings.rules.items import Finding, Rule

MODULES = (
    *(names, network, file_systems, compute, access, hooks, slurm, models, people, teams, observability, cost),
    *(usage, parallelcluster),
)
RULES: tuple[Rule, ...] = tuple(rule for module in MODULES for rule in module.RULES)


def findings(environment: Environment) -> Iterator[Finding]:
    """The findings of all rules on a valid environment."""
    for rule in RULES:
        yield from rule(environment)

"""Loads a pipeline file and the environment files that it names, or reports their faults."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from settings import loader
from settings.faults import Fault, Faults
from settings.files import ENVIRONMENTS, environment_file, environment_names
from settings.model import Environment
from settings.pipeline import rules
from settings.pipeline.model import Approval, Pipeline
from settings.source import Source, read


@dataclass(frozen=True)
class Target:
    """A stage with the environment that it deploys.

    Attributes:
        reference: the environment as commands take it, from the top of the repository.
        approval: whether a person approves every change.
    """

    environment: Environment
    reference: str
    approval: Approval


@dataclass(frozen=True)
class Promotion:
    """A pipeline and its stages, in order."""

    pipeline: Pipeline
    targets: tuple[Target, ...]


def load(path: Path) -> Promotion:
    """Read, type and check one pipeline file and the environment files that it names.

    Raises:
        Faults: all faults of the file's YAML and types; if there are none, all faults of the environments and of the
            rules across the valid ones.
    """
    source = read(Path(path), what="a pipeline", example="environments/pipelines/promotion.yaml")
    pipeline = loader.typed(source, Pipeline)
    environments, others = _environments(source, pipeline)
    for finding in rules.findings(pipeline, environments):
        source.add(finding.key, finding.given, finding.allowed, finding.advice)
    if source.faults or others:
        raise Faults([*source.faults, *others])
    targets = (
        Target(environments[index], stage.environment, pipeline.approval(index))
        for index, stage in enumerate(pipeline.stages)
    )
    return Promotion(pipeline, tuple(targets))


def _environments(source: Source, pipeline: Pipeline) -> tuple[dict[int, Environment], list[Fault]]:
    """The valid environments by the index of their stage, and the faults of the other files."""
    found: dict[int, Environment] = {}
    faults: list[Fault] = []
    for index, stage in enumerate(pipeline.stages):
        try:
            found[index] = loader.load(_file(stage.environment))
        except ValueError as unknown:
            allowed = f"one of {', '.join(environment_names())}, or the path of a .yaml file"
            key = ("stages", index, "environment")
            source.add(key, repr(stage.environment), allowed, str(unknown).partition(".")[0])
        except Faults as wrong:
            faults += wrong.faults
    return found, faults


def _file(reference: str) -> Path:
    """A relative path in a pipeline file starts at the top of the repository, where every step runs."""
    file = environment_file(reference)
    return file if file.is_absolute() or file.exists() else ENVIRONMENTS.parent / file

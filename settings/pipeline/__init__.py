"""Pipeline files: the order of the environments, and who approves a change before it is deployed to the next one."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from settings import loader
from settings.faults import Fault, Faults
from settings.files import ENVIRONMENTS, UnknownName, environment_file, environment_names, pipeline_file
from settings.model import Environment
from settings.pipeline import rules
from settings.pipeline.model import Approval, Pipeline
from settings.source import read

__all__ = ["Pipeline", "Promotion", "Target", "load", "pipeline_file"]


class Target(NamedTuple):
    """A stage with the environment that it deploys.

    Attributes:
        reference: the environment as commands take it, from the top of the repository.
        approval: whether a person approves every change.
    """

    environment: Environment
    reference: str
    approval: Approval


class Promotion(NamedTuple):
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
    targets: list[Target] = []
    stages: rules.Stages = []
    others: list[Fault] = []
    for index, stage in enumerate(pipeline.stages):
        key = ("stages", index, "environment")
        try:
            file = environment_file(stage.environment)
            if not file.exists():  # a relative path starts at the top of the repository, where every step runs
                file = ENVIRONMENTS.parent / file
            environment = loader.load(file)
        except UnknownName as unknown:
            allowed = f"one of {', '.join(environment_names())}, or the path of a .yaml file"
            source.add(key, repr(stage.environment), allowed, str(unknown).partition(".")[0])
        except Faults as wrong:
            others += wrong.faults
        else:
            stages.append((key, environment))
            targets.append(Target(environment, stage.environment, pipeline.approval(index)))
    for finding in rules.findings(pipeline, stages):
        source.add(*finding)
    if source.faults or others:
        raise Faults([*source.faults, *others])
    return Promotion(pipeline, tuple(targets))

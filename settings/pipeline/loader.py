"""From a file to a `Promotion`, or to all the faults of the file and of the environments that it names at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from settings import loader
from settings.faults import Fault, Faults
from settings.files import ENVIRONMENTS, environment_file
from settings.model import Environment
from settings.model.base import NotSoundError
from settings.pipeline import rules
from settings.pipeline.model import Approval, Pipeline
from settings.source import Source, read


@dataclass(frozen=True)
class Target:
    """A stage with the environment that it deploys.

    Attributes:
        reference: the environment as every command takes it, at the top of the repository.
        approval: whether a person lets every change in.
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
        Faults: every fault of the file, and of the environments.
    """
    source = read(Path(path), what="a pipeline", example="environments/pipelines/promotion.yaml")
    pipeline, sound = loader.typed(source, Pipeline)
    environments, others = _environments(source, pipeline)
    for finding in rules.findings(pipeline, environments, partial=not sound):
        source.add(finding.key, finding.given, finding.allowed, finding.advice)
    if source.faults or others:
        raise Faults(dict.fromkeys([*source.faults, *others]))
    targets = (
        Target(environments[index], stage.environment, pipeline.approval(index))
        for index, stage in enumerate(pipeline.stages)
    )
    return Promotion(pipeline, tuple(targets))


def _environments(source: Source, pipeline: Pipeline) -> tuple[dict[int, Environment], list[Fault]]:
    """The environments by the index of their stage, as far as they can be read, and the faults of their files."""
    found: dict[int, Environment] = {}
    faults: list[Fault] = []
    try:
        stages = pipeline.stages
    except NotSoundError:
        return found, faults
    for index, stage in enumerate(stages):
        try:
            reference = stage.environment
        except NotSoundError:
            continue
        try:
            found[index] = loader.load(_file(reference))
        except ValueError as unknown:
            names = ", ".join(file.stem for file in sorted(ENVIRONMENTS.glob("*.yaml")))
            allowed = f"one of {names}, or the path of a .yaml file"
            source.add(("stages", index, "environment"), repr(reference), allowed, str(unknown).partition(".")[0])
        except Faults as wrong:
            faults += wrong.faults
    return found, faults


def _file(reference: str) -> Path:
    """A path in a pipeline file counts from the repository's top, where every step runs."""
    file = environment_file(reference)
    return file if file.is_absolute() or file.exists() else ENVIRONMENTS.parent / file

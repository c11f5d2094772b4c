"""The pipeline that is deployed, as the API of the emulated CodePipeline tells it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any


@dataclass(frozen=True)
class Action:
    """One action of a stage. `configuration` is the provider's own, `inputs` and `outputs` are names of artifacts."""

    stage: str
    name: str
    category: str
    provider: str
    run_order: int
    configuration: dict[str, str]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    namespace: str
    role_arn: str
    region: str

    @property
    def key(self) -> str:
        """STAGE/ACTION, as users write it."""
        return f"{self.stage}/{self.name}"


@dataclass(frozen=True)
class Stage:
    """One stage: its actions in the order in which they run."""

    name: str
    actions: tuple[Action, ...]

    def waves(self) -> Iterator[tuple[Action, ...]]:
        """Actions of one run order run beside each other; the next order waits for all of them."""
        for _, wave in groupby(self.actions, key=lambda action: action.run_order):
            yield tuple(wave)


@dataclass(frozen=True)
class Pipeline:
    """A deployed definition."""

    name: str
    arn: str
    version: int
    role_arn: str
    bucket: str
    stages: tuple[Stage, ...]

    def actions(self) -> Iterator[Action]:
        """Every action, stage by stage, in run order."""
        for stage in self.stages:
            yield from stage.actions


def read(answer: dict[str, Any]) -> Pipeline:
    """The pipeline of a GetPipeline answer."""
    declared = answer["pipeline"]
    stores = declared.get("artifactStores") or {"": declared["artifactStore"]}
    return Pipeline(
        name=declared["name"],
        arn=answer["metadata"]["pipelineArn"],
        version=int(declared["version"]),
        role_arn=declared["roleArn"],
        bucket=next(iter(stores.values()))["location"],
        stages=tuple(
            Stage(
                stage["name"],
                tuple(
                    sorted(
                        (_action(stage["name"], action) for action in stage["actions"]), key=lambda item: item.run_order
                    )
                ),
            )
            for stage in declared["stages"]
        ),
    )


def _action(stage: str, declared: dict[str, Any]) -> Action:
    kind = declared["actionTypeId"]
    return Action(
        stage=stage,
        name=declared["name"],
        category=kind["category"],
        provider=kind["provider"],
        run_order=int(declared.get("runOrder", 1)),
        configuration=dict(declared.get("configuration", {})),
        inputs=tuple(item["name"] for item in declared.get("inputArtifacts", [])),
        outputs=tuple(item["name"] for item in declared.get("outputArtifacts", [])),
        namespace=declared.get("namespace", ""),
        role_arn=declared.get("roleArn", ""),
        region=declared.get("region", ""),
    )

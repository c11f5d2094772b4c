"""AWS::CodePipeline::Pipeline: CloudFormation's form of a definition, turned into the API's."""

from __future__ import annotations

from typing import Any

from ministack.services.cloudformation import provisioners

from local.emulator.cloudformation.provide import Made, Properties, provide
from local.emulator.codepipeline import service, store

TYPE = "AWS::CodePipeline::Pipeline"
_AS_THEY_ARE = ("configuration",)
"""What users name freely: its keys are data."""
_NOT_DECLARED = ("Name", "Tags", "RestartExecutionOnUpdate", "DisableInboundStageTransitions", "ArtifactStores")


def install() -> None:
    """Register the type."""
    provide(TYPE, _create, _delete, _update)


def declaration(name: str, properties: Properties) -> dict[str, Any]:
    """The PipelineDeclaration of the API, judged by the API's own model.

    Raises:
        CodePipelineError: CodePipeline would refuse it.
    """
    found: dict[str, Any] = _lowered({key: value for key, value in properties.items() if key not in _NOT_DECLARED})
    found["name"] = name
    if "ArtifactStores" in properties:
        stores = properties["ArtifactStores"]
        found["artifactStores"] = {item["Region"]: _lowered(item["ArtifactStore"]) for item in stores}
    service.validate("CreatePipeline", {"pipeline": found})
    _sound(found)
    return found


def _sound(found: dict[str, Any]) -> None:
    """What CodePipeline refuses beyond its model: an artifact that nothing made, a stage or action named twice."""
    made: set[str] = set()
    names = [stage["name"] for stage in found["stages"]]
    if len(set(names)) != len(names):
        raise store.CodePipelineError("InvalidStageDeclarationException", f"stages are named twice: {names}")
    for stage in found["stages"]:
        actions = sorted(stage["actions"], key=lambda action: action.get("runOrder", 1))
        if len({action["name"] for action in actions}) != len(actions):
            raise store.CodePipelineError("InvalidActionDeclarationException", f"{stage['name']}: names are not unique")
        for action in actions:
            for wanted in action.get("inputArtifacts", []):
                if wanted["name"] not in made:
                    raise store.CodePipelineError(
                        "InvalidActionDeclarationException",
                        f"{stage['name']}/{action['name']} takes {wanted['name']}, which no action before it makes",
                    )
            made |= {artifact["name"] for artifact in action.get("outputArtifacts", [])}


def _lowered(value: Any) -> Any:
    if isinstance(value, list):
        return [_lowered(item) for item in value]
    if not isinstance(value, dict):
        return value
    found: dict[str, Any] = {}
    for key, item in value.items():
        name = key[0].lower() + key[1:]
        if name in _AS_THEY_ARE:
            found[name] = {inner: str(text) for inner, text in item.items()}
        else:
            found[name] = int(item) if name in ("runOrder", "timeoutInMinutes") else _lowered(item)
    return found


def _tags(properties: Properties) -> dict[str, str]:
    return {str(tag["Key"]): str(tag["Value"]) for tag in properties.get("Tags", [])}


def _create(logical_id: str, properties: Properties, stack: str) -> Made:
    name = properties.get("Name") or provisioners._physical_name(stack, logical_id)
    if name in store.PIPELINES:
        raise ValueError(f"PipelineNameInUseException: a pipeline with the name {name!r} exists already")
    found = store.Pipeline(declaration(name, properties), _tags(properties), created=store.now(), updated=store.now())
    store.PIPELINES[name] = found
    return name, {"Version": str(found.version)}


def _update(physical_id: str, _old: Properties, new: Properties) -> dict[str, Any]:
    found = store.find(physical_id)
    wanted = declaration(physical_id, new)
    found.tags = _tags(new)
    if wanted != found.declaration:
        found.declaration = wanted
        found.version += 1
        found.updated = store.now()
    return {"Version": str(found.version)}


def _delete(physical_id: str, _properties: Properties) -> None:
    store.PIPELINES.pop(physical_id, None)

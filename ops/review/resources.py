"""What CloudFormation does to each resource on the way from one set of stacks to another."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ops.review.expiry import losses
from ops.review.references import References, Resource
from ops.review.retention import fate
from ops.review.specification import CUSTOM, Path_, Specification
from ops.review.stacks import Stacks
from ops.review.structure import ABSENT, Difference, differences

_ATTRIBUTES = ("DeletionPolicy", "UpdateReplacePolicy")


class Effect(StrEnum):
    """What becomes of a resource. REFUSED: no update can do it, and the deployment fails."""

    ADDED = "added"
    CHANGED = "changed in place"
    MAY_BE_REPLACED = "may be replaced"
    REPLACED = "replaced"
    REMOVED = "removed"
    REFUSED = "refused"


@dataclass(frozen=True)
class ResourceChange:
    """One resource.

    Attributes:
        stack: construct id of its stack.
        name: what users call it, else its logical id.
        differences: of its properties, policies and type, references resolved.
        causes: paths of the properties that cannot change in place.
        stateful: holds data.
        fate: what becomes of the data: kept, lost, or in which case; empty where nothing with data is replaced or
            removed.
        expires: what the change deletes though the resource stays, in words.
    """

    stack: str
    logical_id: str
    kind: str
    name: str
    effect: Effect
    differences: tuple[Difference, ...] = ()
    causes: tuple[str, ...] = ()
    stateful: bool = False
    fate: str = ""
    expires: tuple[str, ...] = ()

    @property
    def gone(self) -> bool:
        """Whether the resource that stands there now ceases to be part of the stack, or may."""
        return self.effect in (Effect.MAY_BE_REPLACED, Effect.REPLACED, Effect.REMOVED)


def changes(old: Stacks, new: Stacks, specification: Specification) -> list[ResourceChange]:
    """Every resource that changes, in the order of the templates."""
    renewed = _renewed(old, new, specification)
    return [
        change
        for key in dict.fromkeys([*new, *old])
        if key in new  # A stack that is no longer made is left as it is by a deployment.
        for change in _of_stack(key, old, new, renewed, specification)
    ]


def _renewed(old: Stacks, new: Stacks, specification: Specification) -> set[Resource]:
    """Resources that are made anew, with those that follow because they refer to one of them."""
    renewed: set[Resource] = set()
    before = References(old)
    while True:
        after = References(new, renewed)
        found = {
            (key, logical_id)
            for key, stack in new.items()
            if key in old
            for logical_id, resource in stack.resources.items()
            if (was := old[key].resources.get(logical_id)) and was["Type"] == resource["Type"]
            for always in _causes(
                resource["Type"],
                before.resolve(was.get("Properties", {}), key),
                after.resolve(resource.get("Properties", {}), key),
                specification,
            ).values()
            if always
        }
        if found <= renewed:
            return renewed
        renewed |= found


def _causes(kind: str, was: Any, now: Any, specification: Specification) -> dict[str, bool]:  # noqa: ANN401 - JSON
    """Paths that differ and cannot change in place: for certain (True) or perhaps."""
    return {
        ".".join(path): always
        for path, always in specification.replacing(kind).items()
        if _at(was, path) != _at(now, path)
    }


def _at(value: Any, path: Path_) -> Any:  # noqa: ANN401 - JSON
    for key in path:
        if key == "*" or not isinstance(value, Mapping):
            # Within lists, what is compared is the whole list.
            return value
        value = value.get(key, ABSENT)
    return value


def _of_stack(
    key: str, old: Stacks, new: Stacks, renewed: Collection[Resource], specification: Specification
) -> Iterator[ResourceChange]:
    before, after = References(old), References(new, renewed)
    there: Mapping[str, Mapping[str, Any]] = old[key].resources if key in old else {}
    here = new[key].resources
    for logical_id in dict.fromkeys([*here, *there]):
        was, now = there.get(logical_id), here.get(logical_id)
        kind = str((was or now or {})["Type"])
        stateful = specification.is_stateful(kind)
        if was is None or now is None:
            effect = Effect.ADDED if was is None else Effect.REMOVED
            name = _name(logical_id, now or was or {})
            lot = fate(was, None) if was and stateful else ""
            yield ResourceChange(key, logical_id, kind, name, effect, stateful=stateful, fate=lot)
            continue
        found = tuple(differences(_content(was, before, key), _content(now, after, key)))
        if not found:
            continue
        sides = before.resolve(was.get("Properties", {}), key), after.resolve(now.get("Properties", {}), key)
        causes = _causes(kind, *sides, specification)
        effect = _effect(was, now, causes)
        yield ResourceChange(
            key,
            logical_id,
            kind,
            _name(logical_id, was),
            effect,
            differences=found,
            causes=tuple(causes) or (_refused(was, now) or ()),
            stateful=stateful,
            fate=fate(was, now) if stateful and effect in (Effect.REPLACED, Effect.MAY_BE_REPLACED) else "",
            expires=losses(kind, *sides) if effect is Effect.CHANGED else (),
        )


def _effect(was: Mapping[str, Any], now: Mapping[str, Any], causes: Mapping[str, bool]) -> Effect:
    if _refused(was, now) or (causes and str(was["Type"]).startswith(CUSTOM)):
        return Effect.REFUSED
    if any(causes.values()):
        return Effect.REPLACED
    return Effect.MAY_BE_REPLACED if causes else Effect.CHANGED


def _refused(was: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """What no update does: another type under one logical id; an FSx file system that shrinks."""
    if was["Type"] != now["Type"]:
        return ("Type",)
    if was["Type"] == "AWS::FSx::FileSystem":
        sizes = [side.get("Properties", {}).get("StorageCapacity") for side in (was, now)]
        if all(isinstance(size, int) for size in sizes) and sizes[1] < sizes[0]:
            return ("StorageCapacity",)
    return ()


def _content(resource: Mapping[str, Any], references: References, stack: str) -> dict[str, Any]:
    """What counts as a change: not metadata, and not the order of creation."""
    return {
        "Type": resource["Type"],
        **references.resolve(resource.get("Properties", {}), stack),
        **{key: resource[key] for key in _ATTRIBUTES if key in resource},
    }


def _name(logical_id: str, resource: Mapping[str, Any]) -> str:
    properties = resource.get("Properties", {})
    tags = properties.get("Tags") if isinstance(properties.get("Tags"), list) else ()
    candidates: Sequence[object] = (
        properties.get("ClusterName"),
        properties.get("RepositoryName"),
        properties.get("BucketName"),
        properties.get("Name"),
        next((tag.get("Value") for tag in tags or () if isinstance(tag, Mapping) and tag.get("Key") == "Name"), None),
    )
    return next((item for item in candidates if isinstance(item, str)), logical_id)

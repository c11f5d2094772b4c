"""What CloudFormation does to each resource on the way from one set of stacks to another."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ops.review.cdk import CUSTOM, rules
from ops.review.data_loss import data_disposition, expirations
from ops.review.references import References, Resource
from ops.review.stacks import Stacks
from ops.review.structure import ABSENT, Difference, differences

_ATTRIBUTES = ("DeletionPolicy", "UpdateReplacePolicy")
_NAMES = ("ClusterName", "RepositoryName", "BucketName", "Name")


class Effect(StrEnum):
    """What happens to a resource. REFUSED: no update can do it, and the deployment fails."""

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
        name: the name that users know it by, else its logical id.
        differences: of its properties, policies and type, references resolved.
        causes: paths of the properties that cannot change in place.
        stateful: holds data.
        data_disposition: what happens to the data: begins with kept or lost; empty unless a resource with data is
            replaced or removed.
        expires: what the change deletes although the resource stays, in words.
    """

    stack: str
    logical_id: str
    kind: str
    name: str
    effect: Effect
    differences: tuple[Difference, ...] = ()
    causes: tuple[str, ...] = ()
    stateful: bool = False
    data_disposition: str = ""
    expires: tuple[str, ...] = ()

    @property
    def gone(self) -> bool:
        """Whether the deployed resource leaves the stack, or may."""
        return self.effect in (Effect.MAY_BE_REPLACED, Effect.REPLACED, Effect.REMOVED)


def changes(old: Stacks, new: Stacks) -> list[ResourceChange]:
    """Every resource that changes, in the order of the templates. A stack that only `old` has is left as it is."""
    replaced = _replaced(old, new)
    return [change for key in new for change in _of_stack(key, old, new, replaced)]


def _replaced(old: Stacks, new: Stacks) -> set[Resource]:
    """Resources that are replaced, and those that are replaced because they refer to one of them, in any stack."""
    before = References(old)
    pairs = {
        (key, logical_id): (resource["Type"], before.resolve(was.get("Properties", {}), key), resource)
        for key, stack in new.items()
        if key in old
        for logical_id, resource in stack.resources.items()
        if (was := old[key].resources.get(logical_id)) and was["Type"] == resource["Type"]
    }
    replaced: set[Resource] = set()
    while True:
        after = References(new, replaced)
        found = {
            place
            for place, (kind, was, now) in pairs.items()
            if any(_causes(kind, was, after.resolve(now.get("Properties", {}), place[0])).values())
        }
        if found <= replaced:
            return replaced
        replaced |= found


def _causes(kind: str, was: object, now: object) -> dict[str, bool]:
    """Paths that differ and cannot change in place: for certain (True) or perhaps."""
    if was == now:
        return {}
    return {path: always for path, always in rules(kind).replacing.items() if _at(was, path) != _at(now, path)}


def _at(value: Any, path: str) -> object:  # noqa: ANN401 - JSON
    for key in path.split("."):
        if not isinstance(value, Mapping):
            return value
        value = value.get(key, ABSENT)
    return value


def _of_stack(key: str, old: Stacks, new: Stacks, replaced: Collection[Resource]) -> Iterator[ResourceChange]:
    before, after = References(old), References(new, replaced)
    there: Mapping[str, Mapping[str, Any]] = old[key].resources if key in old else {}
    here = new[key].resources
    for logical_id in dict.fromkeys([*here, *there]):
        was, now = there.get(logical_id), here.get(logical_id)
        if was is None and now is not None:
            kind = now["Type"]
            yield ResourceChange(
                key, logical_id, kind, _name(logical_id, now), Effect.ADDED, stateful=rules(kind).stateful
            )
        elif was is not None and now is None:
            kind, stateful = was["Type"], rules(was["Type"]).stateful
            disposition = data_disposition(was, None) if stateful else ""
            name = _name(logical_id, was)
            yield ResourceChange(
                key, logical_id, kind, name, Effect.REMOVED, stateful=stateful, data_disposition=disposition
            )
        elif was is not None and now is not None:
            found = tuple(differences(_content(was, before, key), _content(now, after, key)))
            if found:
                sides = before.resolve(was.get("Properties", {}), key), after.resolve(now.get("Properties", {}), key)
                yield _changed(key, logical_id, (was, now), sides, found)


def _changed(
    key: str,
    logical_id: str,
    resources: tuple[Mapping[str, Any], Mapping[str, Any]],
    properties: tuple[Mapping[str, Any], Mapping[str, Any]],
    found: tuple[Difference, ...],
) -> ResourceChange:
    was, now = resources
    kind = str(was["Type"])
    stateful = rules(kind).stateful
    causes = _causes(kind, *properties)
    refused = _refused(was, now)
    if refused or (causes and kind.startswith(CUSTOM)):
        effect = Effect.REFUSED
    elif any(causes.values()):
        effect = Effect.REPLACED
    else:
        effect = Effect.MAY_BE_REPLACED if causes else Effect.CHANGED
    leaves = stateful and effect in (Effect.REPLACED, Effect.MAY_BE_REPLACED)
    return ResourceChange(
        key,
        logical_id,
        kind,
        _name(logical_id, was),
        effect,
        differences=found,
        causes=tuple(causes) or refused,
        stateful=stateful,
        data_disposition=data_disposition(was, now) if leaves else "",
        expires=expirations(kind, *properties) if effect is Effect.CHANGED else (),
    )


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
    named = [tag.get("Value") for tag in tags or () if isinstance(tag, Mapping) and tag.get("Key") == "Name"]
    candidates = [*(properties.get(key) for key in _NAMES), *named]
    return next((item for item in candidates if isinstance(item, str)), logical_id)

"""What CloudFormation does to each resource on the way from one set of stacks to another."""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from ops.review.cdk import CUSTOM, rules
from ops.review.data_loss import data_disposition, expirations
from ops.review.stacks import References, Resource, Stacks
from ops.review.structure import ABSENT, Difference, differences

Json = Mapping[str, Any]

DATABASE, ASSOCIATION = "AWS::RDS::DBCluster", "AWS::FSx::DataRepositoryAssociation"
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
        imported: refused because other stacks import a value of the resource that would change.
    """

    stack: str
    logical_id: str
    type: str
    name: str
    effect: Effect
    differences: tuple[Difference, ...] = ()
    causes: tuple[str, ...] = ()
    stateful: bool = False
    data_disposition: str = ""
    expires: tuple[str, ...] = ()
    imported: bool = False

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
        (key, logical_id): (was["Type"], _properties(was, before.within(key)), resource)
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
            if any(_causes(kind, was, _properties(now, after.within(place[0]))).values())
        }
        if found <= replaced:
            return replaced
        replaced |= found


def _properties(resource: Json, references: References) -> dict[str, Any]:
    found: dict[str, Any] = references.resolve(resource.get("Properties", {}))
    return found


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
    before, after = References(old).within(key), References(new, replaced).within(key)
    there: Mapping[str, Json] = old[key].resources if key in old else {}
    here = new[key].resources
    for logical_id in dict.fromkeys([*here, *there]):
        was, now = there.get(logical_id), here.get(logical_id)
        resource = was or here[logical_id]
        kind = str(resource["Type"])
        stateful = rules(kind).stateful
        change = ResourceChange(key, logical_id, kind, _name(logical_id, resource), Effect.ADDED, stateful=stateful)
        if was is None:
            yield change
        elif now is None:
            disposition = data_disposition(was, None) if stateful else ""
            yield replace(change, effect=Effect.REMOVED, data_disposition=disposition)
        else:
            properties = _properties(was, before), _properties(now, after)
            if found := tuple(differences(_content(was, properties[0]), _content(now, properties[1]))):
                changed = _changed(replace(change, differences=found), (was, now), properties)
                # CloudFormation changes no export that is imported (user guide, "Get exported outputs").
                imported = stateful and changed.effect is Effect.REPLACED and _imported(old, key, logical_id)
                refused = replace(changed, effect=Effect.REFUSED, data_disposition="", imported=True)
                yield refused if imported else changed


def _content(resource: Json, properties: Json) -> dict[str, Any]:
    """What counts as a change: neither metadata nor the order of creation."""
    return {"Type": resource["Type"], **properties, **{key: resource[key] for key in _ATTRIBUTES if key in resource}}


def _changed(change: ResourceChange, resources: tuple[Json, Json], properties: tuple[Json, Json]) -> ResourceChange:
    causes, refused = _causes(change.type, *properties), _refused(*resources)
    # CloudFormation creates the new association first, while the old one exists. FSx does not allow two associations of
    # one file system with the same folder or prefix (CreateDataRepositoryAssociation).
    conflicts = change.type == ASSOCIATION and causes and "FileSystemId" not in causes
    custom = change.type.startswith(CUSTOM) and causes
    if refused or conflicts or custom:
        effect = Effect.REFUSED
    elif any(causes.values()):
        effect = Effect.REPLACED
    else:
        effect = Effect.MAY_BE_REPLACED if causes else Effect.CHANGED
    change = replace(change, effect=effect, causes=tuple(causes) or refused)
    if effect is Effect.CHANGED:
        return replace(change, expires=expirations(change.type, *properties))
    return replace(change, data_disposition=data_disposition(*resources) if change.stateful and change.gone else "")


def _refused(was: Json, now: Json) -> tuple[str, ...]:
    """What no update does: another type for one logical id, EFA, a size that shrinks or of OpenZFS grows below 10 %."""
    if was["Type"] != now["Type"]:
        return ("Type",)
    efa = "LustreConfiguration.EfaEnabled"  # UpdateFileSystem has no such parameter
    if len({_at(side.get("Properties", {}), efa) for side in (was, now)} - {ABSENT}) > 1:
        return (efa,)
    key = {"AWS::FSx::FileSystem": "StorageCapacity", "AWS::EC2::Volume": "Size"}.get(was["Type"])
    sizes = [side.get("Properties", {}).get(key) for side in (was, now)] if key else []
    if key and all(isinstance(size, int) for size in sizes) and sizes[1] != sizes[0]:
        # UpdateFileSystem: OpenZFS must become "at least 10 percent greater than the current storage capacity value".
        least = 11 if "OpenZFSConfiguration" in now["Properties"] else 10
        return (key,) if 10 * sizes[1] < least * sizes[0] else ()
    return ()


def _imported(stacks: Stacks, key: str, logical_id: str) -> bool:
    """Whether another stack imports a value of the resource, such as its address."""
    outputs = stacks[key].template.get("Outputs", {}).values()
    names = [item["Export"]["Name"] for item in outputs if "Export" in item and logical_id in json.dumps(item["Value"])]
    others = [json.dumps(stack.template) for other, stack in stacks.items() if other != key]
    return any(json.dumps(name) in text for name in names for text in others)


def _name(logical_id: str, resource: Json) -> str:
    properties = resource.get("Properties", {})
    tags = properties.get("Tags")
    named = [tag for tag in tags if isinstance(tag, Mapping)] if isinstance(tags, list) else []
    candidates = [
        *(properties.get(key) for key in _NAMES),
        *(tag.get("Value") for tag in named if tag.get("Key") == "Name"),
    ]
    return next((item for item in candidates if isinstance(item, str)), logical_id)

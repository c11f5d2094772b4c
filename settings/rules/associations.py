"""Data repository associations between Lustre and S3."""

from __future__ import annotations

from collections.abc import Iterator

from settings.faults import KeyPath, key_text
from settings.model import Environment
from settings.model.storage import Association, Lustre
from settings.rules.finding import Finding, for_each
from settings.rules.items import associations, lustres, overlap

MAX_ASSOCIATIONS = 8


@for_each(lustres)
def count(_: Environment, key: KeyPath, lustre: Lustre) -> Iterator[Finding]:
    """At most 8 associations per file system. Source: FSx API reference, CreateDataRepositoryAssociation."""
    if len(lustre.associations) > MAX_ASSOCIATIONS:
        yield Finding(
            (*key, "associations"),
            f"{len(lustre.associations)} associations",
            f"at most {MAX_ASSOCIATIONS} on one file system",
            "link a parent folder to S3, or add another file system",
        )


@for_each(lustres)
def paths(_: Environment, key: KeyPath, lustre: Lustre) -> Iterator[Finding]:
    """Folders of associations may not overlap. Source: FSx API reference, DataRepositoryAssociation, FileSystemPath."""
    found = list(associations(key, lustre))
    for index, (at, item) in enumerate(found):
        before = next((other for other in found[:index] if overlap(item.path, other[1].path)), None)
        if before:
            given = f"{item.path}, which overlaps with {before[1].path} of {key_text(before[0])}"
            yield Finding((*at, "path"), given, "folders that do not contain each other")


@for_each(lustres)
def prefixes(_: Environment, key: KeyPath, lustre: Lustre) -> Iterator[Finding]:
    """Prefixes of one bucket may not overlap: FSx would import and export the same objects twice.

    Source: FSx API reference, CreateDataRepositoryAssociation ("a unique S3 bucket or prefix").
    """
    found = list(associations(key, lustre))
    for index, (at, item) in enumerate(found):
        before = next((other for other in found[:index] if _same_objects(item, other[1])), None)
        if before:
            given = f"{item.prefix!r}, which overlaps with {before[1].prefix!r} of {key_text(before[0])}"
            allowed = f"prefixes of the bucket {item.bucket} of which none begins with another"
            yield Finding((*at, "prefix"), given, allowed)


def _same_objects(one: Association, other: Association) -> bool:
    return one.bucket == other.bucket and (one.prefix.startswith(other.prefix) or other.prefix.startswith(one.prefix))


@for_each(lustres)
def events(_: Environment, key: KeyPath, lustre: Lustre) -> Iterator[Finding]:
    """At least one event: without any, nothing is copied automatically. Each event is listed once."""
    for at, item in associations(key, lustre):
        for name, given in (("import_events", item.import_events), ("export_events", item.export_events)):
            if len(set(given)) != len(given):
                yield Finding((*at, name), ", ".join(given), "each of new, changed, deleted at most once")
        if not item.import_events and not item.export_events:
            allowed = "at least one of import_events and export_events"
            yield Finding((*at, "export_events"), "no event in either direction", allowed)


@for_each(lustres)
def exporters(environment: Environment, key: KeyPath, lustre: Lustre) -> Iterator[Finding]:
    """Two file systems may not export to the same prefix: they would overwrite each other's objects."""
    earlier = [
        (other_key, other)
        for before, other_lustre in list(lustres(environment))[: int(key[-1])]
        for other_key, other in associations(before, other_lustre)
        if other.export_events
    ]
    for at, item in associations(key, lustre):
        for other_key, other in earlier:
            if item.export_events and _same_objects(item, other):
                given = f"{item.prefix!r}, to which {key_text(other_key)} exports too"
                yield Finding((*at, "prefix"), given, "only one file system that exports to a prefix")


RULES = (count, paths, prefixes, events, exporters)

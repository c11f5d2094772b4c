"""Data repository associations between Lustre and S3."""

from __future__ import annotations

from collections.abc import Iterator

from settings.faults import KeyPath, key_text
from settings.model import Environment
from settings.model.storage import Lustre
from settings.rules.finding import Finding, rule_for_each
from settings.rules.items import associations, lustres, overlap

MOST = 8


@rule_for_each(lustres)
def count(_: Environment, key: KeyPath, lustre: Lustre) -> Iterator[Finding]:
    """At most 8 associations a file system. Source: FSx API reference, CreateDataRepositoryAssociation."""
    if len(lustre.associations) > MOST:
        yield Finding(
            (*key, "associations"),
            f"{len(lustre.associations)} associations",
            f"at most {MOST} on one file system",
            "tie a folder further up to S3, or add another file system",
        )


@rule_for_each(lustres)
def paths(_: Environment, key: KeyPath, lustre: Lustre) -> Iterator[Finding]:
    """Two associations may not have overlapping folders, and one at `/` is the only one.

    Source: FSx API reference, DataRepositoryAssociation, FileSystemPath.
    """
    found = list(associations(key, lustre))
    for index, (at, item) in enumerate(found):
        for before, other in found[:index]:
            if overlap(item.path, other.path):
                yield Finding(
                    (*at, "path"),
                    f"{item.path}, which overlaps with {other.path} of {key_text(before)}",
                    "folders of which none lies in another",
                )
                break


@rule_for_each(lustres)
def prefixes(_: Environment, key: KeyPath, lustre: Lustre) -> Iterator[Finding]:
    """Each association of a file system has a prefix of its own, and none lies in another: FSx would import
    and export the same objects twice.

    Source: FSx API reference, CreateDataRepositoryAssociation ("a unique S3 bucket or prefix").
    """
    found = list(associations(key, lustre))
    for index, (at, item) in enumerate(found):
        for before, other in found[:index]:
            same = item.bucket == other.bucket
            if same and (item.prefix.startswith(other.prefix) or other.prefix.startswith(item.prefix)):
                yield Finding(
                    (*at, "prefix"),
                    f"{item.prefix!r}, which overlaps with {other.prefix!r} of {key_text(before)}",
                    f"prefixes of the bucket {item.bucket} of which none begins with another",
                )
                break


@rule_for_each(lustres)
def events(_: Environment, key: KeyPath, lustre: Lustre) -> Iterator[Finding]:
    """Each event once, and at least one event in one of the directions: without any, the link does nothing
    by itself.
    """
    for at, item in associations(key, lustre):
        for name, given in (("import_events", item.import_events), ("export_events", item.export_events)):
            if len(set(given)) != len(given):
                yield Finding((*at, name), ", ".join(given), "each of new, changed, deleted at most once")
        if not item.import_events and not item.export_events:
            allowed = "at least one of import_events and export_events"
            yield Finding((*at, "export_events"), "no event in either direction", allowed)


@rule_for_each(lustres)
def exporters(environment: Environment, key: KeyPath, lustre: Lustre) -> Iterator[Finding]:
    """Two file systems that export to the same prefix would overwrite each other's objects."""
    earlier = list(lustres(environment))[: int(key[-1])]
    for at, item in associations(key, lustre):
        for other_key, other_lustre in earlier:
            for before, other in associations(other_key, other_lustre):
                both = item.export_events and other.export_events and item.bucket == other.bucket
                if both and (item.prefix.startswith(other.prefix) or other.prefix.startswith(item.prefix)):
                    yield Finding(
                        (*at, "prefix"),
                        f"{item.prefix!r}, to which {key_text(before)} exports too",
                        "one file system that exports to a prefix",
                    )


RULES = (count, paths, prefixes, events, exporters)

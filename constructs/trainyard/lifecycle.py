"""The prefixes of the checkpoint bucket whose objects expire.

The storage policy: data sets, results and final weights are kept; intermediate checkpoints (weights and optimizer
states) and logs expire; temporary files live a week. Nothing in the data bucket expires, whatever its folders are
called: a data set may be named logs/. Lifecycle rules take prefixes only, so these come from the environment: the usual
folder names at a bucket's root, the same names under each data repository association, and the folders of the models
wherever an association links them to a bucket.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from settings.model import Environment
from settings.model.storage import Association

Kind = Literal["checkpoints", "logs", "temporary"]

_FOLDERS: dict[str, Kind] = {"checkpoints": "checkpoints", "logs": "logs", "tmp": "temporary"}


@dataclass(frozen=True, order=True)
class Expiring:
    """A prefix, ending in a slash, whose objects expire."""

    prefix: str
    kind: Kind


def expiring(environment: Environment) -> tuple[Expiring, ...]:
    """The expiring prefixes of the checkpoint bucket, sorted, without those inside another prefix of the same kind."""
    found = {Expiring(f"{folder}/", kind) for folder, kind in _FOLDERS.items()}
    for lustre in environment.storage.lustre:
        for association in lustre.associations:
            if association.bucket == "checkpoints":
                found |= set(_under(association))
                found |= set(_model_folders(environment, PurePosixPath(lustre.mount), association))

    def inside_another(item: Expiring) -> bool:
        return any(
            item != other and item.kind == other.kind and item.prefix.startswith(other.prefix) for other in found
        )

    return tuple(sorted(item for item in found if not inside_another(item)))


def _under(association: Association) -> Iterator[Expiring]:
    """The usual folder names under an association, or its own prefix where that is such a folder."""
    own = _FOLDERS.get(PurePosixPath(association.prefix).name)
    if own is not None:
        yield Expiring(association.prefix, own)
    # An association of one folder, such as /results, has no such folders inside.
    elif association.path == "/":
        for folder, kind in _FOLDERS.items():
            yield Expiring(f"{association.prefix}{folder}/", kind)


def _model_folders(environment: Environment, mount: PurePosixPath, association: Association) -> Iterator[Expiring]:
    """The folders of the models that an association links to its bucket."""
    root = mount / association.path.lstrip("/")
    for model in environment.models:
        folders: tuple[tuple[str, Kind], ...] = (
            (model.folders.checkpoints, "checkpoints"),
            (model.folders.logs, "logs"),
            (model.folders.tensorboard, "logs"),
        )
        for folder, kind in folders:
            path = PurePosixPath(folder)
            if path != root and path.is_relative_to(root):
                yield Expiring(f"{association.prefix}{path.relative_to(root)}/", kind)
            elif path == root and association.prefix:
                yield Expiring(association.prefix, kind)

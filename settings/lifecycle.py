"""The prefixes of the checkpoint bucket whose objects expire.

The storage policy: data sets, results and final weights are kept; intermediate checkpoints (weights and optimizer
states) and logs expire; temporary files live a week. Nothing in the data bucket expires, whatever its folders are
called: a data set may be named logs/. Lifecycle rules take prefixes only, so these come from the environment: the usual
folder names at a bucket's root, the same names under each data repository association, and the folders of the models
wherever an association links them to a bucket.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

from settings.model import Environment
from settings.model.storage import Association, Buckets

Kind = Literal["checkpoints", "logs", "temporary"]

_FOLDERS: dict[str, Kind] = {"checkpoints": "checkpoints", "logs": "logs", "tmp": "temporary"}
_MODEL_FOLDERS: dict[str, Kind] = {"checkpoints": "checkpoints", "logs": "logs", "tensorboard": "logs"}


class Expiring(NamedTuple):
    """A prefix, ending in a slash, whose objects expire."""

    prefix: str
    kind: Kind


def expiring(environment: Environment) -> tuple[Expiring, ...]:
    """The expiring prefixes of the checkpoint bucket, sorted, without those inside another prefix of the same kind."""
    found = {Expiring(f"{folder}/", kind) for folder, kind in _FOLDERS.items()}
    found.update(item for _, association in _associations(environment) for item in _under(association))
    for model, (name, kind) in product(environment.models, _MODEL_FOLDERS.items()):
        found.update(Expiring(prefix, kind) for prefix in prefixes(environment, getattr(model.folders, name)) if prefix)
    inside = {a for a, b in permutations(found, 2) if a.kind == b.kind and a.prefix.startswith(b.prefix)}
    return tuple(sorted(found - inside))


def prefixes(environment: Environment, folder: str) -> Iterator[str]:
    """The prefixes of the checkpoint bucket that associations link a folder to, empty for the whole bucket."""
    for mount, association in _associations(environment):
        path, root = PurePosixPath(folder), PurePosixPath(mount) / association.path.lstrip("/")
        if path.is_relative_to(root):
            yield association.prefix + "".join(f"{part}/" for part in path.relative_to(root).parts)


def days(buckets: Buckets, kind: Kind) -> int:
    """Days until objects of a kind expire."""
    return {"checkpoints": buckets.checkpoint_days, "logs": buckets.log_days, "temporary": 7}[kind]


def _associations(environment: Environment) -> Iterator[tuple[str, Association]]:
    """The associations with the checkpoint bucket, each with the mount of its file system."""
    for lustre in environment.storage.lustre:
        yield from ((lustre.mount, item) for item in lustre.associations if item.bucket == "checkpoints")


def _under(association: Association) -> Iterator[Expiring]:
    """The usual folder names under an association, or its own prefix where that is such a folder."""
    own = _FOLDERS.get(PurePosixPath(association.prefix).name)
    if own is not None:
        yield Expiring(association.prefix, own)
    # An association of one folder, such as /results, has no such folders inside.
    elif association.path == "/":
        for folder, kind in _FOLDERS.items():
            yield Expiring(f"{association.prefix}{folder}/", kind)

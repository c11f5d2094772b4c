"""A data set's manifest: its files with bytes, CRC64NVME and SHA-256; and the scan of a folder.

S3 computes a CRC64NVME over a whole object, also one that was uploaded in parts, so bucket and manifest are compared
without reading. Nodes, which have only Python's standard library, compare the SHA-256.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from awscrt import checksums

from ops.data.store import Stopped
from ops.problem import Problem

FORMAT = 1
MANIFEST = ".trainyard-dataset.json"
"""The manifest's name in the data set's folder. It is uploaded last: a data set that has it is complete."""
PART_SUFFIX = ".trainyard-part"
"""Of files that a pull has not finished."""
REPLACING = json.dumps({"format": FORMAT, "replacing": True}).encode()
"""Stored instead of the manifest while objects are overwritten. No command and no node accepts it as a manifest."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_READ = 8 * 1024 * 1024


@dataclass(frozen=True)
class File:
    """One file of a data set. `crc64nvme` is base64 as S3 gives it, `sha256` is hexadecimal."""

    bytes: int
    crc64nvme: str
    sha256: str


class Digest:
    """Both checksums of a file that is read from start to end."""

    def __init__(self) -> None:
        self.bytes, self._crc, self._sha = 0, 0, hashlib.sha256()

    def update(self, data: bytes) -> None:
        """Add what was read."""
        self.bytes += len(data)
        self._crc = checksums.crc64nvme(data, self._crc)
        self._sha.update(data)

    def result(self) -> File:
        """The checksums of everything so far."""
        return File(self.bytes, crc_text(self._crc), self._sha.hexdigest())


def crc_text(crc: int) -> str:
    """A CRC64NVME in S3's notation."""
    return base64.b64encode(crc.to_bytes(8, "big")).decode()


def crc64nvme(data: bytes) -> str:
    """The CRC64NVME of some bytes in S3's notation."""
    return crc_text(checksums.crc64nvme(data))


def read_file(path: Path, stop: threading.Event | None = None) -> File:
    """Read a file and return its checksums; raises Stopped where `stop` is set meanwhile."""
    digest = Digest()
    with path.open("rb") as file:
        while data := file.read(_READ):
            if stop is not None and stop.is_set():
                raise Stopped
            digest.update(data)
    return digest.result()


@dataclass(frozen=True)
class Manifest:
    """A data set: its files by path below its folder."""

    name: str
    created: str
    files: Mapping[str, File]

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.bytes for file in self.files.values())

    def text(self) -> str:
        """The manifest's content."""
        files = {path: vars(file) for path, file in sorted(self.files.items())}
        return json.dumps({"format": FORMAT, "name": self.name, "created": self.created, "files": files}, indent=1)


def new(name: str, files: Mapping[str, File]) -> Manifest:
    """A manifest of now."""
    return Manifest(name, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), files)


def parse(text: bytes | str, where: str) -> Manifest:
    """The manifest that was read at `where`.

    Raises:
        Problem: it is not a manifest, or of another format.
    """
    try:
        found = json.loads(text)
        if found["format"] != FORMAT:
            raise Problem(f"{where} has format {found['format']!r}; this version reads {FORMAT}. Update Trainyard.")
        if found.get("replacing"):
            raise Problem(
                f"{where}: the data set is being replaced, or that was interrupted: finish it with trainyard data push "
                "--replace"
            )
        files = {
            str(path): File(int(one["bytes"]), str(one["crc64nvme"]), str(one["sha256"]))
            for path, one in found["files"].items()
        }
        for path in files:
            parts = PurePosixPath(path).parts
            if not parts or parts[0] == "/" or ".." in parts:
                raise ValueError(f"the path {path!r} is not below the data set's folder")
        return Manifest(str(found["name"]), str(found["created"]), files)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Problem(
            f"{where} is not the manifest of a data set ({type(error).__name__}: {error}). Push the data set again, "
            "with --replace."
        ) from error


def check_name(name: str) -> str:
    """The name of a data set.

    Raises:
        Problem: it is not allowed.
    """
    if not _NAME.fullmatch(name):
        raise Problem(
            f"{name!r} is not a name of a data set. Allowed: letters, digits, '.', '_' and '-', at most 80, beginning "
            "with a letter or a digit."
        )
    return name


def scan(folder: Path) -> dict[str, Path]:
    """The files of a folder by path below it; symbolic links to files count as the files.

    Raises:
        Problem: there are none, or one cannot be an object or a file on the cluster.
    """
    if not folder.is_dir():
        raise Problem(f"{folder} is not a folder. Give the folder that holds the data set's files.")
    found: dict[str, Path] = {}
    for root, folders, names in os.walk(folder, onerror=_raise):
        for name in (*names, *(one for one in folders if (Path(root) / one).is_symlink())):
            path = Path(root) / name
            if name == MANIFEST or name.endswith(PART_SUFFIX):
                continue
            relative = path.relative_to(folder).as_posix()
            if not path.is_file():
                raise Problem(f"{path} is not a regular file, or a link to none. Remove it, or copy what it points to.")
            if not relative.isprintable() or len(relative.encode(errors="replace")) > 700:
                raise Problem(f"{path!r} cannot be an object: give it a printable name of at most 700 bytes.")
            if not os.access(path, os.R_OK):
                raise Problem(f"{path} cannot be read: permission denied.")
            found[relative] = path
    if not found:
        raise Problem(f"{folder} has no files: there is nothing to push.")
    return dict(sorted(found.items()))


def _raise(error: OSError) -> None:
    raise error

"""The bundle of cluster_assets/: one reproducible archive of everything that runs on the nodes.

cluster_assets/README.md defines its format and the keys under which it is published.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ASSETS = Path(__file__).parents[2] / "cluster_assets"
PREFIX = "cluster"
ENTRY = "entry/entry.sh"
SETTINGS = f"{PREFIX}/settings.json"
_LEFT_OUT = frozenset({"README.md", "__pycache__"})


@dataclass(frozen=True)
class Bundle:
    """The archive, and its checksum, which is its name."""

    content: bytes
    sha256: str

    @property
    def key(self) -> str:
        return f"{PREFIX}/bundles/{self.sha256}.tar"

    @property
    def pointer(self) -> str:
        """Content of `cluster/current.json`."""
        return json.dumps({"bundle": self.key, "sha256": self.sha256, "settings": SETTINGS}, indent=1) + "\n"


def build(folder: Path = ASSETS) -> Bundle:
    """The bundle of a folder of cluster assets.

    Raises:
        ValueError: the folder has no entry script, or has a symbolic link, which could point elsewhere on a node.
    """
    if not (folder / ENTRY).is_file():
        raise ValueError(f"{folder.name}/ has no {ENTRY}, the script that every custom action runs.")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, path in sorted(_members(folder)):
            content = path.read_bytes()
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mode = 0o755 if path.suffix in {".sh", ".sbatch"} else 0o644
            archive.addfile(member, io.BytesIO(content))
    content = buffer.getvalue()
    return Bundle(content, hashlib.sha256(content).hexdigest())


def stage(bundle: Bundle, target: Path, folder: Path = ASSETS) -> None:
    """Write the published files, except `cluster/settings.json`, below `target` by their keys in the bucket."""
    files = {
        f"{PREFIX}/{ENTRY}": (folder / ENTRY).read_bytes(),
        bundle.key: bundle.content,
        f"{PREFIX}/current.json": bundle.pointer.encode(),
    }
    for key, content in files.items():
        path = target / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _members(folder: Path) -> list[tuple[str, Path]]:
    members = []
    for path in folder.rglob("*"):
        name = PurePosixPath(path.relative_to(folder).as_posix())
        if any(part in _LEFT_OUT or part.startswith(".") for part in name.parts) or path.suffix == ".pyc":
            continue
        if path.is_symlink():
            raise ValueError(f"{folder.name}/{name} is a symbolic link; a bundle holds plain files only.")
        if path.is_file():
            members.append((str(name), path))
    return members

"""The bundle of cluster_assets/: one reproducible archive of everything that runs on the nodes.

cluster_assets/README.md defines its format and the keys under which it is published.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from settings.model.cluster import Hook

ASSETS = Path(__file__).parents[2] / "cluster_assets"
PREFIX = "cluster"
ENTRY = "entry/entry.sh"
SETTINGS = f"{PREFIX}/settings.json"
_LEFT_OUT = frozenset({"README.md", "__pycache__"})
# Of the monitoring host: a changed alert rule must not be an update of the cluster.
_HOST_ONLY = ("monitoring/alertmanager/", "monitoring/host/", "monitoring/prometheus/")


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


def build(folder: Path = ASSETS, hooks: Sequence[Hook] = ()) -> Bundle:
    """The bundle of a folder of cluster assets, and of the environment's hooks.

    Raises:
        ValueError: the folder has no entry script, or has a symbolic link, which could point elsewhere on a node; or a
            hook is not the pinned one.
    """
    if not (folder / ENTRY).is_file():
        raise ValueError(f"{folder.name}/ has no {ENTRY}, the script that every custom action runs.")
    return archive({**dict(_members(folder)), **_hook_members(hooks)})


def archive(members: Mapping[str, bytes]) -> Bundle:
    """The bundle of files by their names in it: the same bytes for the same files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in sorted(members.items()):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mode = 0o755 if PurePosixPath(name).suffix in {".sh", ".sbatch"} else 0o644
            tar.addfile(member, io.BytesIO(content))
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


def _hook_members(hooks: Sequence[Hook]) -> dict[str, bytes]:
    """Each script under its checksum, and a list for each role and moment, in the order of the environment file."""
    members: dict[str, bytes] = {}
    for hook in hooks:
        content, name = hook.content or b"", f"hooks/{hook.role}.{hook.when}"
        if hashlib.sha256(content).hexdigest() != hook.sha256:
            raise ValueError(f"The script {hook.script} does not have the SHA-256 {hook.sha256}.")
        members[f"hooks/{hook.sha256}.sh"] = content
        members[name] = members.get(name, b"") + f"{hook.sha256} {hook.script}\n".encode()
    return members


def _members(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in folder.rglob("*"):
        name = PurePosixPath(path.relative_to(folder).as_posix())
        if any(part in _LEFT_OUT or part.startswith(".") for part in name.parts) or path.suffix == ".pyc":
            continue
        if str(name).startswith(_HOST_ONLY):
            continue
        if path.is_symlink():
            raise ValueError(f"{folder.name}/{name} is a symbolic link; a bundle holds plain files only.")
        if path.is_file():
            yield str(name), path.read_bytes()

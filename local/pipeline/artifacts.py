"""Artifacts: folders that actions hand to each other, where CodePipeline has zip files in a bucket."""

from __future__ import annotations

import shutil
from pathlib import Path

from local.pipeline.buildspec import Artifact
from local.pipeline.problem import ActionFailed


class Artifacts:
    """The artifacts of one execution, below one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, name: str) -> Path:
        """Where an artifact is, or will be."""
        return self._folder / name

    def unpack(self, name: str, target: Path) -> None:
        """A copy of an artifact, which its reader may change.

        Raises:
            ActionFailed: no action has made it.
        """
        if not self.path(name).is_dir():
            raise ActionFailed(f"the artifact {name} is not there: no action before has made it")
        shutil.copytree(self.path(name), target, symlinks=True, dirs_exist_ok=True)

    def collect(self, name: str, wanted: Artifact, source: Path) -> None:
        """Make an artifact of the files of a build that its buildspec names.

        Raises:
            ActionFailed: nothing matches, which CodeBuild takes for a failed build.
        """
        base = source / wanted.base
        left_out = {path for pattern in wanted.exclude for path in base.glob(pattern)}
        found = sorted({path for pattern in wanted.files for path in _files(base, pattern)} - left_out)
        if not found:
            raise ActionFailed(
                f"CLIENT_ERROR: no matching artifact paths found: {', '.join(wanted.files)} in {wanted.base or '.'}"
            )
        target = self.path(name)
        shutil.rmtree(target, ignore_errors=True)
        for path in found:
            copy = target / (path.name if wanted.discard_paths else path.relative_to(base))
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy, follow_symlinks=False)


def _files(base: Path, pattern: str) -> list[Path]:
    if not base.is_dir():
        return []
    # **/* is every file at any depth, also those directly in the folder; a folder's own name is no file.
    return [path for path in base.glob(pattern.removeprefix("/")) if path.is_file() or path.is_symlink()]

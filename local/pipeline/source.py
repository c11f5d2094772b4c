"""The source action: the checkout at a revision, in the place of what a connection would fetch."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from local.pipeline.definition import Action
from local.pipeline.problem import ActionFailed, Problem

PROVIDERS = ("CodeStarSourceConnection",)
WORKING_TREE = "WORKING-TREE"
"""In the place of a revision: the files as they lie there, committed or not, but for what git ignores."""


@dataclass(frozen=True)
class Source:
    """A checkout and the revision of it that is walked."""

    checkout: Path
    revision: str

    @classmethod
    def at(cls, checkout: Path, revision: str) -> Source:
        """The source at a revision, which is looked up now, so that a walk sees one commit from its start to its end.

        Raises:
            Problem: git does not know it.
        """
        if revision == WORKING_TREE:
            return cls(checkout, revision)
        found = _git(checkout, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", check=False)
        if not found:
            raise Problem(f"git knows no revision {revision!r} in {checkout}: give a branch, a tag or a commit")
        return cls(checkout, found)

    def uncommitted(self) -> int:
        """How many files of the checkout differ from its last commit."""
        return len(_git(self.checkout, "status", "--porcelain").splitlines())

    def unpack(self, target: Path, *, with_git: bool = False) -> None:
        """Write the files of the revision; `with_git` makes a clone, as CODEBUILD_CLONE_REF does."""
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        if self.revision == WORKING_TREE:
            self._copy(target)
        elif with_git:
            _git(self.checkout, "clone", "--quiet", "--no-checkout", str(self.checkout), str(target))
            _git(target, "checkout", "--quiet", "--detach", self.revision)
        else:
            archive = subprocess.run(
                ["git", "-C", str(self.checkout), "archive", "--format=tar", self.revision],
                capture_output=True,
                check=True,
            ).stdout
            with tarfile.open(fileobj=BytesIO(archive)) as packed:
                packed.extractall(target, filter="data")

    def _copy(self, target: Path) -> None:
        listed = _git(self.checkout, "ls-files", "-z", "--cached", "--others", "--exclude-standard", strip=False)
        for name in filter(None, listed.split("\0")):
            path, copy = self.checkout / name, target / name
            if path.is_symlink() or path.is_file():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, copy, follow_symlinks=False)

    def variables(self, action: Action) -> dict[str, str]:
        """The variables that such an action sets."""
        configuration = action.configuration
        said = {
            "CommitId": self.revision,
            "BranchName": configuration.get("BranchName", ""),
            "FullRepositoryName": configuration.get("FullRepositoryId", ""),
            "ConnectionArn": configuration.get("ConnectionArn", ""),
        }
        commit = "HEAD" if self.revision == WORKING_TREE else self.revision
        said["AuthorDate"] = _git(self.checkout, "log", "-1", "--format=%aI", commit)
        said["CommitMessage"] = _git(self.checkout, "log", "-1", "--format=%s", commit)
        return said

    def run(self, action: Action, target: Path) -> dict[str, str]:
        """Carry out a source action: its variables.

        Raises:
            ActionFailed: of a provider that this executor does not play.
        """
        if action.provider not in PROVIDERS:
            raise ActionFailed(f"source provider {action.provider}; this executor has {', '.join(PROVIDERS)}")
        self.unpack(target, with_git=action.configuration.get("OutputArtifactFormat") == "CODEBUILD_CLONE_REF")
        return self.variables(action)


def _git(checkout: Path, *arguments: str, check: bool = True, strip: bool = True) -> str:
    done = subprocess.run(["git", "-C", str(checkout), *arguments], capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise Problem(f"git {arguments[0]} failed in {checkout}: {done.stderr.strip()}")
    return done.stdout.strip() if strip else done.stdout

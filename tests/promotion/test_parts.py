"""The parts of the executor that need no world: variables, artifacts, run order, records, what is lent to builds."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from local.pipeline import definition, installed, record
from local.pipeline.artifacts import Artifacts
from local.pipeline.buildspec import Artifact
from local.pipeline.problem import ActionFailed, Problem
from local.pipeline.record import Entry, Record
from local.pipeline.source import WORKING_TREE, Source
from local.pipeline.variables import resolve, resolve_all


def action(name: str, order: int, provider: str = "CodeBuild", category: str = "Build") -> dict[str, Any]:
    return {
        "name": name,
        "runOrder": order,
        "actionTypeId": {"category": category, "owner": "AWS", "provider": provider, "version": "1"},
        "configuration": {"ProjectName": name},
    }


def pipeline(*actions: dict[str, Any]) -> definition.Pipeline:
    return definition.read(
        {
            "pipeline": {
                "name": "p",
                "version": 3,
                "roleArn": "arn:aws:iam::111122223333:role/p",
                "artifactStore": {"type": "S3", "location": "bucket"},
                "stages": [{"name": "One", "actions": list(actions)}],
            },
            "metadata": {"pipelineArn": "arn:aws:codepipeline:us-east-1:111122223333:p"},
        }
    )


def test_run_order() -> None:
    read = pipeline(action("late", 3), action("a", 1), action("b", 1), action("middle", 2))
    waves = [[item.name for item in wave] for wave in read.stages[0].waves()]
    assert waves == [["a", "b"], ["middle"], ["late"]]
    assert [item.key for item in read.actions()] == ["One/a", "One/b", "One/middle", "One/late"]


def test_variables() -> None:
    known = {"Source@repo": {"CommitId": "abc"}, "dev": {"LEVEL": "safe"}}
    assert (
        resolve("#{Source@repo.CommitId} is #{dev.LEVEL}, #{not a variable}", known) == "abc is safe, #{not a variable}"
    )
    assert resolve_all({"CustomData": "#{dev.LEVEL}"}, known) == {"CustomData": "safe"}
    with pytest.raises(ActionFailed, match=r"#\{dev.HEADLINE\} is not set: dev has LEVEL"):
        resolve("#{dev.HEADLINE}", known)
    with pytest.raises(ActionFailed, match="staging has nothing"):
        resolve("#{staging.LEVEL}", known)


def test_artifacts(tmp_path: Path) -> None:
    source = tmp_path / "src"
    (source / "out" / "deep").mkdir(parents=True)
    (source / "out" / "top.txt").write_text("top")
    (source / "out" / "deep" / "low.txt").write_text("low")
    (source / "else").write_text("no")
    artifacts = Artifacts(tmp_path / "artifacts")
    artifacts.collect("Whole", Artifact(("**/*",), base="out"), source)
    artifacts.collect("Flat", Artifact(("**/*.txt",), exclude=("**/top.txt",), discard_paths=True), source)
    found = {str(path.relative_to(tmp_path / "artifacts")) for path in (tmp_path / "artifacts").rglob("*.txt")}
    assert found == {"Whole/top.txt", "Whole/deep/low.txt", "Flat/low.txt"}
    artifacts.unpack("Whole", tmp_path / "copy")
    (tmp_path / "copy" / "top.txt").write_text("changed by its reader")
    assert (artifacts.path("Whole") / "top.txt").read_text() == "top"
    with pytest.raises(ActionFailed, match="no matching artifact paths found: report/"):
        artifacts.collect("None", Artifact(("report/*",)), source)
    with pytest.raises(ActionFailed, match="no action before has made it"):
        artifacts.unpack("None", tmp_path / "none")


def test_record(tmp_path: Path) -> None:
    assert record.read(tmp_path) is None
    written = Record("promotion", "abc", pipeline="p", execution="e", version=2)
    written.entries["One/a"] = Entry("waiting", 1.5, "who?", "build:1", ["make test-fast"])
    written.variables["dev"] = {"LEVEL": "safe"}
    written.write(tmp_path)
    assert record.read(tmp_path) == written


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (checkout / "pyproject.toml").write_text("[project]\n")
    (checkout / "uv.lock").write_text("locked\n")
    (checkout / ".gitignore").write_text(".venv/\n")
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "First"]):
        identity = ["-c", "user.name=Test", "-c", "user.email=test@example.com"]
        subprocess.run(["git", "-C", str(checkout), *identity, *command], check=True)
    return checkout


def test_source_is_the_commit(repository: Path, tmp_path: Path) -> None:
    source = Source.at(repository, "HEAD")
    (repository / "uv.lock").write_text("edited since\n")
    (repository / "new.txt").write_text("untracked\n")
    assert source.uncommitted() == 2
    source.unpack(tmp_path / "archive")
    source.unpack(tmp_path / "clone", with_git=True)
    for name in ("archive", "clone"):
        assert (tmp_path / name / "uv.lock").read_text() == "locked\n"
        assert not (tmp_path / name / "new.txt").exists()
    assert (tmp_path / "clone" / ".git").is_dir()
    assert not (tmp_path / "archive" / ".git").exists()
    Source.at(repository, WORKING_TREE).unpack(tmp_path / "tree")
    assert (tmp_path / "tree" / "uv.lock").read_text() == "edited since\n"
    assert (tmp_path / "tree" / "new.txt").exists()
    with pytest.raises(Problem, match="git knows no revision 'v9'"):
        Source.at(repository, "v9")


def venv(checkout: Path) -> Path:
    packages = checkout / ".venv" / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "_project.pth").write_text(f"{checkout}\n{checkout}/constructs\n")
    (packages / "boto3").mkdir()
    programs = checkout / ".venv" / "bin"
    programs.mkdir()
    (programs / "python").symlink_to("/usr/bin/python3")
    (programs / "tool").write_text(f"#!{checkout}/.venv/bin/python\n")
    (programs / "tool").chmod(0o755)
    (checkout / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    ready = checkout / ".venv" / ".ready"
    ready.touch()
    return ready


def test_lent_with_the_code_of_the_copy(repository: Path, tmp_path: Path) -> None:
    """What is installed is lent, but not the checkout's own code, which the copy has in another version."""
    venv(repository)
    copy = tmp_path / "copy"
    Source.at(repository, "HEAD").unpack(copy)
    assert installed.lend(repository, copy) == [".venv"]
    packages = copy / ".venv" / "lib" / "python3.11" / "site-packages"
    assert (packages / "_project.pth").read_text() == f"{copy}\n{copy}/constructs\n"
    assert (packages / "boto3").is_symlink()
    assert (copy / ".venv" / "bin" / "tool").read_text() == f"#!{copy}/.venv/bin/python\n"
    assert os.access(copy / ".venv" / "bin" / "tool", os.X_OK)
    ready, lock = copy / ".venv" / ".ready", copy / "uv.lock"
    assert lock.stat().st_mtime <= ready.stat().st_mtime, "make would install again"


def test_not_lent_where_the_copy_wants_others(repository: Path, tmp_path: Path) -> None:
    ready = venv(repository)
    copy = tmp_path / "copy"
    Source.at(repository, "HEAD").unpack(copy)
    (copy / "uv.lock").write_text("another release\n")
    assert installed.lend(repository, copy) == []
    (copy / "uv.lock").write_text("locked\n")
    os.utime(ready, (0, 0))  # the checkout's own environment is older than its lock file
    assert installed.lend(repository, copy) == []


def test_a_line_decides(repository: Path, tmp_path: Path) -> None:
    """The Makefile may be another one, as long as it wants the same uv."""
    (repository / ".tools").mkdir()
    (repository / "Makefile").write_text("UV_VERSION := 1\nall:\n")
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "Makefile").write_text("UV_VERSION := 1\nother:\n")
    assert installed.lend(repository, copy) == [".tools"]
    (copy / ".tools").unlink()
    (copy / "Makefile").write_text("UV_VERSION := 2\nall:\n")
    assert installed.lend(repository, copy) == []

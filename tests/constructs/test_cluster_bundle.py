"""The bundle of cluster assets: equal for equal content, in the form that cluster_assets/README.md fixes."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from settings.model.cluster import Hook
from trainyard import cluster_bundle


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("entry/entry.sh", "lib/b.sh", "lib/a.txt", "roles/updated"):
        path = tmp_path / "assets" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\n")
    return tmp_path / "assets"


def members(bundle: cluster_bundle.Bundle) -> list[tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(bundle.content), mode="r:") as archive:
        return archive.getmembers()


def test_members_are_sorted_files_with_settled_owners_times_and_modes(folder: Path) -> None:
    found = members(cluster_bundle.build(folder))
    assert [(item.name, item.mode) for item in found] == [
        ("entry/entry.sh", 0o755),
        ("lib/a.txt", 0o644),
        ("lib/b.sh", 0o755),
        ("roles/updated", 0o644),
    ]
    assert {(item.uid, item.gid, item.uname, item.gname, item.mtime) for item in found} == {(0, 0, "", "", 0)}


def test_what_tools_and_machines_leave_changes_nothing(folder: Path) -> None:
    before = cluster_bundle.build(folder)
    for name in (".DS_Store", "README.md", "lib/__pycache__/a.cpython-311.pyc", ".hidden/b.sh", "monitoring/host/a.sh"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("left behind")
    for path in folder.rglob("*.sh"):
        path.chmod(0o600)
    (folder / "empty").mkdir()
    assert cluster_bundle.build(folder) == before


def test_a_change_of_content_is_another_version(folder: Path) -> None:
    before = cluster_bundle.build(folder)
    (folder / "lib" / "b.sh").write_text("changed\n")
    after = cluster_bundle.build(folder)
    assert after.sha256 != before.sha256
    assert after.sha256 == hashlib.sha256(after.content).hexdigest()


def hook(folder: Path, moment: str, name: str) -> Hook:
    """A script whose content is its name."""
    role, when = moment.split(".")
    (folder / name).write_text(f"#!{name}\n")
    sha256 = hashlib.sha256(f"#!{name}\n".encode()).hexdigest()
    made = Hook.model_validate({"role": role, "when": when, "script": name, "sha256": sha256})
    made.read(folder)
    return made


def test_hooks_are_listed_for_their_moment_in_their_order(folder: Path, tmp_path: Path) -> None:
    b, a = (hook(tmp_path, "compute-start.after", name) for name in ("b.sh", "a.sh"))
    head = hook(tmp_path, "head-configured.before", "a.sh")
    bundle = cluster_bundle.build(folder, (b, a, head))
    with tarfile.open(fileobj=io.BytesIO(bundle.content), mode="r:") as archive:
        content = {item.name: archive.extractfile(item).read() for item in archive}  # type: ignore[union-attr]
    assert {name: text for name, text in content.items() if name.startswith("hooks/")} == {
        f"hooks/{a.sha256}.sh": b"#!a.sh\n",
        f"hooks/{b.sha256}.sh": b"#!b.sh\n",
        "hooks/compute-start.after": f"{b.sha256} b.sh\n{a.sha256} a.sh\n".encode(),
        "hooks/head-configured.before": f"{a.sha256} a.sh\n".encode(),
    }
    modes = {item.name: item.mode for item in members(bundle)}
    assert (modes[f"hooks/{a.sha256}.sh"], modes["hooks/compute-start.after"]) == (0o755, 0o644)
    assert cluster_bundle.build(folder, (a, b, head)).sha256 != bundle.sha256


def test_a_hook_that_was_not_read_is_refused(folder: Path, tmp_path: Path) -> None:
    unread = Hook.model_validate(hook(tmp_path, "compute-start.after", "a.sh").model_dump())
    with pytest.raises(ValueError, match=r"a\.sh does not have the SHA-256"):
        cluster_bundle.build(folder, (unread,))


def test_staged_files_lie_under_the_keys_of_the_bucket(folder: Path, tmp_path: Path) -> None:
    bundle = cluster_bundle.build(folder)
    cluster_bundle.stage(bundle, tmp_path / "stage", folder)
    staged = {
        path.relative_to(tmp_path / "stage").as_posix(): path.read_bytes()
        for path in (tmp_path / "stage").rglob("*")
        if path.is_file()
    }
    assert set(staged) == {"cluster/entry/entry.sh", f"cluster/bundles/{bundle.sha256}.tar", "cluster/current.json"}
    assert json.loads(staged["cluster/current.json"]) == {
        "bundle": f"cluster/bundles/{bundle.sha256}.tar",
        "sha256": bundle.sha256,
        "settings": "cluster/settings.json",
    }


def test_a_symbolic_link_and_a_missing_entry_script_are_refused(folder: Path) -> None:
    (folder / "lib" / "link.sh").symlink_to(folder / "lib" / "b.sh")
    with pytest.raises(ValueError, match=r"lib/link\.sh is a symbolic link"):
        cluster_bundle.build(folder)
    (folder / "lib" / "link.sh").unlink()
    (folder / "entry" / "entry.sh").unlink()
    with pytest.raises(ValueError, match=r"has no entry/entry\.sh"):
        cluster_bundle.build(folder)


def test_the_assets_of_the_project_make_a_bundle_with_every_script() -> None:
    names = {item.name for item in members(cluster_bundle.build())}
    scripts = {path.relative_to(cluster_bundle.ASSETS).as_posix() for path in cluster_bundle.ASSETS.rglob("*.sh")}
    scripts = {name for name in scripts if not name.startswith("monitoring/host/")}
    assert scripts and scripts <= names
    assert "README.md" not in names

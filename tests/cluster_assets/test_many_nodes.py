"""Bootstraps at once on nodes that share file systems and Slurm's configuration."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.cluster_assets.conftest import Node

Settings = dict[str, Any]
SHARED = ("lustre", "shared", "opt/slurm")


def copies(node: Node, count: int) -> list[Node]:
    """Nodes like this one, each with a root of its own in which what is shared leads to the same place."""
    place = node.fake.parent / "common"
    for share in SHARED:
        (place / share).parent.mkdir(parents=True, exist_ok=True)
        node.path(share).rename(place / share)
        node.path(share).symlink_to(place / share)
    found = []
    for number in range(count):
        root = node.fake.parent / f"node{number}"
        shutil.copytree(node.root, root, symlinks=True)
        environment = node.environment | {"TRAINYARD_ROOT": str(root), "TRAINYARD_MOUNT_SECONDS": "60"}
        found.append(dataclasses.replace(node, root=root, environment=environment))
    return found


def tree(folder: Path) -> dict[str, tuple[int, str | bytes]]:
    """Every entry below a folder: mode, and content or what a link leads to."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else "",
        )
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.parametrize(("heads", "computes"), [(1, 8), (3, 0)])
def test_shares_are_as_after_a_single_run(node: Node, settings: Settings, heads: int, computes: int) -> None:
    roles = ["head-configured"] * heads + ["compute-configured"] * computes
    nodes = copies(node, len(roles))
    common = node.fake.parent / "common"
    node.publish(settings)
    for number in range(5):
        (node.fake / f"refuse/{number}").touch()

    processes = [node.start(role) for node, role in zip(nodes, roles, strict=True)]
    errors = [process.communicate(timeout=180)[1] for process in processes]

    assert [process.returncode for process in processes] == [0] * len(roles), errors
    assert errors == [""] * len(roles)
    # Three reads of the bucket a node, and one more for each that was refused: nothing is asked for twice.
    assert len(node.calls("aws")) == 3 * len(roles) + 5
    assert 1 <= sum(call.startswith("try-restart slurmctld") for call in node.calls("systemctl")) <= heads
    assert not [path for path in common.rglob("*") if path.name.startswith((".trainyard", ".staged", ".current"))]
    together = tree(common)

    # Only the head node writes to the shares.
    for share in SHARED:
        shutil.rmtree(common / share)
        (common / share).mkdir()
    (common / "opt/slurm/etc").mkdir()
    (common / "opt/slurm/etc/slurm.conf").touch()
    assert nodes[0].run("updated").returncode == 0
    assert tree(common) == together

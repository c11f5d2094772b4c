"""A good environment to edit, and the faults that an edit makes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

import settings

Edit = Callable[[Mapping[str, object]], Path]
FaultsOf = Callable[[Mapping[str, object]], tuple[settings.Fault, ...]]

BASE: dict[str, Any] = yaml.safe_load("""
name: base
account: "111122223333"
region: us-east-1
network: {zone: use1-az4}
storage:
  lustre:
    - {name: fast, mount: /fsx, capacity_gib: 1200, associations: [{path: /data, bucket: data, prefix: data/}]}
    - {name: slow, mount: /lustre, capacity_gib: 2400}
  openzfs: {capacity_gib: 64, throughput: 160, volumes: [{name: home, mount: /home}]}
cluster:
  queues:
    - {name: gpu, compute: [{name: p5, instance_types: [p5.48xlarge], max: 4, efa: true}]}
    - {name: cpu, compute: [{name: c7i, instance_types: [c7i.xlarge], max: 2}]}
models:
  - name: one
    queue: gpu
    nodes: 3
    folders: {data: /fsx/data, checkpoints: /fsx/a/c, outputs: /fsx/a/o, logs: /fsx/a/l, tensorboard: /fsx/a/l/t}
  - name: two
    queue: gpu
    nodes: 1
    folders: {data: /fsx/data, checkpoints: /fsx/b/c, outputs: /fsx/b/o, logs: /fsx/b/l, tensorboard: /fsx/b/t}
""")

SCRIPTS = {
    "good.sh": b"#!/bin/sh\nid -un\n",
    "crlf.sh": b"#!/bin/sh\r\nid -un\r\n",
    "text.txt": b"id -un\n",
}
"""Scripts in hooks/ next to the file of an edit that names some."""

GONE = ...
"""As a value of an edit: take the key out."""


@pytest.fixture
def good() -> dict[str, Any]:
    """The good environment."""
    return copy.deepcopy(BASE)


def apply_edits(data: dict[str, Any], edits: Mapping[str, object]) -> None:
    """Changes data by path: `{"storage.lustre.0.efa": True}`; `...` removes, an index at a list's end appends."""
    for path, value in edits.items():
        at: Any = data
        *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        for step in way:
            at = at.setdefault(step, {}) if isinstance(at, dict) else at[step]
        if value is GONE:
            del at[last]
        elif isinstance(at, list) and last == len(at):
            at.append(copy.deepcopy(value))
        else:
            at[last] = copy.deepcopy(value)


def write_edited(edits: Mapping[str, object], folder: Path) -> Path:
    """Writes the good environment with edits, see `apply_edits`."""
    data = copy.deepcopy(BASE)
    apply_edits(data, edits)
    file = folder / "edited.yaml"
    file.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    if any(path.startswith("cluster.hooks") for path in edits):
        (folder / "hooks").mkdir(exist_ok=True)
        for name, content in SCRIPTS.items():
            (folder / "hooks" / name).write_bytes(content)
    return file


@pytest.fixture
def edit(tmp_path: Path) -> Edit:
    """See `write_edited`."""
    return lambda edits: write_edited(edits, tmp_path)


@pytest.fixture
def faults_of(edit: Edit) -> FaultsOf:
    """The faults of the good environment after edits; none where it is still good."""

    def read(edits: Mapping[str, object]) -> tuple[settings.Fault, ...]:
        try:
            settings.load(edit(edits))
        except settings.Faults as found:
            return found.faults
        return ()

    return read

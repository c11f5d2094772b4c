"""Faults of a laboratory's nodes, each until its block ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from local.slurm import Laboratory

GPUS, FIGURES = "/etc/lab/gpus.json", "/etc/lab/figures.json"


@contextmanager
def interfaces(lab: Laboratory, slow: str = "") -> Iterator[None]:
    """All interfaces have the same rate, because the nodes share this machine's cores; that of a slow node has less."""
    try:
        for node in lab.plan.compute:
            shape = f"tbf rate {16 if node.name == slow else 40}mbit burst 32kb latency 100ms"
            lab.run(f"tc qdisc add dev eth0 root {shape}", node=node.name, user="root")
        yield
    finally:
        for node in lab.plan.compute:
            lab.run("tc qdisc del dev eth0 root", node=node.name, user="root", check=False)


@contextmanager
def hanging(lab: Laboratory, node: str) -> Iterator[None]:
    """A node whose pair_tcp.py hangs."""
    program = "$(readlink -f /shared/scripts/current/jobs/lib/pair_tcp.py)"
    replace = f"echo 'import time; time.sleep(600)' >/run/hang.py && mount --bind /run/hang.py {program}"
    lab.run(replace, node=node, user="root")
    try:
        yield
    finally:
        lab.run(f"umount {program}", node=node, user="root")


@contextmanager
def file_with(lab: Laboratory, path: str, change: dict[str, Any], *nodes: str) -> Iterator[None]:
    """A JSON file of some nodes with other values."""
    before = {node: lab.path(path, node=node).read_text() for node in nodes}
    try:
        for node, text in before.items():
            lab.write(path, json.dumps(json.loads(text) | change, indent=1), node=node, user="root")
        yield
    finally:
        for node, text in before.items():
            lab.write(path, text, node=node, user="root")


@contextmanager
def gpus(lab: Laboratory, node: str, *, shown: int = 8, **of_the_first: object) -> Iterator[None]:
    """A node that shows fewer GPUs, or whose first GPU has other values."""
    first, *others = json.loads(lab.path(GPUS, node=node).read_text())["gpus"]
    with file_with(lab, GPUS, {"gpus": [{**first, **of_the_first}, *others][:shown]}, node):
        yield


@contextmanager
def without_bucket(lab: Laboratory) -> Iterator[None]:
    """The checkpoint bucket is gone."""
    bucket = f"/run/lab/s3/{lab.plan.buckets['checkpoints']}"
    lab.run(["mv", bucket, f"{bucket}-gone"], user="root")
    try:
        yield
    finally:
        lab.run(["mv", f"{bucket}-gone", bucket], user="root")

"""A laboratory for imports: a head node, two P5 nodes and one without GPUs, with what the bootstrap does for images."""

from __future__ import annotations

import json
from pathlib import Path

from local.slurm import Laboratory, bootstrap, make
from settings import load

ROOT = Path(__file__).parents[2]
ENVIRONMENT = ROOT / "environments" / "local.yaml"
# The assets as they lie in the checkout, on every node.
ASSETS = "/opt/assets"
IMAGES = "/shared/containers/images"
SETTINGS = "/opt/trainyard/settings.json"
COMPUTE_NODES = {"gpu/p5": 2, "cpu/c7i": 1}


def start(laboratory: Laboratory) -> None:
    """Start it, with the bootstrap's steps that imports rest on; what else a node checks is not the subject here."""
    plan = make(
        load(ENVIRONMENT), counts=COMPUTE_NODES, binds={ASSETS: str(ROOT / "cluster_assets")}, powered_down=False
    )
    laboratory.up(plan, before_slurmd=lambda: _prepare(laboratory))


def prepare_node(laboratory: Laboratory, node: str, *steps: str) -> None:
    """The settings and the given steps on one node."""
    laboratory.write(SETTINGS, json.dumps(laboratory.plan.settings()), node=node, user="root")
    for step in steps:
        laboratory.run(["bash", f"{ASSETS}/steps/{step}.sh"], node=node, user="root")


def _prepare(laboratory: Laboratory) -> None:
    bootstrap.pyxis(laboratory)
    prepare_node(laboratory, "head", "folders", "environment", "enroot")
    for node in laboratory.plan.compute:
        prepare_node(laboratory, node.name, "environment", "enroot")

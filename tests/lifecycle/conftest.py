"""One emulator for the suite; one stack and one cluster name a test, and nothing of either left behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.emulator import launch
from tests.e2e.conftest import free_ports

from .deployment import NAME, Base, deploy
from .life import GONE, Cluster, Life
from .template import StackSpec

STACK = f"{NAME}-cluster"
KEEP = "LIFECYCLE_STATE"
"""A folder: the emulator is started there, or found there, and kept after the run, so that the next one is quick."""


@pytest.fixture(scope="session")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Base]:
    """The emulator, with the base deployed to it."""
    kept = os.environ.get(KEEP)
    # With several workers of pytest-xdist, each has an emulator of its own.
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    state = Path(kept) / worker if kept else tmp_path_factory.mktemp("lifecycle") / "state"
    try:
        yield deploy(state, free_ports())
    finally:
        if not kept:
            launch.stop(state)


@pytest.fixture
def base(deployed: Base) -> Iterator[Base]:
    """The emulator, reset."""
    deployed.control.reset()
    yield deployed
    deployed.control.reset()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name for this test's stack and cluster: letters, digits and hyphens."""
    words = "".join(c if c.isalnum() else "-" for c in request.node.name.removeprefix("test_").lower())
    return "-".join(part for part in words.split("-") if part)[:40].strip("-")


@pytest.fixture
def life(base: Base) -> Iterator[Life]:
    """A stack that does not exist yet, under the name that the functions may look at (who may read which stack is bound
    to the environment's cluster stack). What is left of it is removed afterwards.
    """
    made = Life(base, STACK)
    yield made
    base.control.reset()
    if made.settled() != "DELETE_COMPLETE":
        assert made.delete() == "DELETE_COMPLETE", made.story()


@pytest.fixture
def cluster(base: Base, name: str) -> Iterator[Cluster]:
    """The cluster of that name, which does not exist yet. What is left of it afterwards is removed."""
    made = Cluster(base, name)
    yield made
    base.control.reset()
    if made.status() != GONE:
        made.delete()


@pytest.fixture
def spec(life: Life, cluster: Cluster) -> StackSpec:
    """The spec of a created stack."""
    made = StackSpec(cluster.name, max_count=2)
    assert life.create(made) == "CREATE_COMPLETE", life.story()
    return made

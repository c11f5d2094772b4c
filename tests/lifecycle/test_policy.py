"""What an update may do beside changing the cluster: stop its fleet, end its jobs, replace it."""

from __future__ import annotations

import pytest

from .deployment import Base
from .life import GONE, Cluster, Life
from .template import Wish

pytestmark = pytest.mark.lifecycle

STOPS = (("StopFleet", "when-needed"),)


def fleet(cluster: Cluster) -> str:
    """The fleet's status."""
    return str(cluster.base.api("GET", f"/{cluster.name}/computefleet")[1]["status"])


def test_the_fleet_is_stopped_where_it_may_be(life: Life, cluster: Cluster) -> None:
    wish = Wish(cluster.name, updates=STOPS)
    assert life.create(wish) == "CREATE_COMPLETE", life.story()
    assert life.update(wish.but(instance_type="c7i.xlarge", max_count=1)) == "UPDATE_COMPLETE", life.story()
    assert cluster.max_count() == 1
    assert fleet(cluster) == "RUNNING"


def test_the_fleet_runs_again_after_a_failure(life: Life, cluster: Cluster, base: Base) -> None:
    wish = Wish(cluster.name, updates=STOPS)
    assert life.create(wish) == "CREATE_COMPLETE", life.story()
    base.steer.update_fails(cluster.name, "Failed to run chef recipe")
    assert life.update(wish.but(max_count=1)) == "UPDATE_ROLLBACK_COMPLETE", life.story()
    assert cluster.max_count() == 2
    assert fleet(cluster) == "RUNNING"


def test_a_sibling_fails_after_a_raise(life: Life, cluster: Cluster) -> None:
    """The way back needs a stopped fleet, and the environment lets it."""
    wish = Wish(cluster.name, updates=STOPS)
    assert life.create(wish) == "CREATE_COMPLETE", life.story()
    assert life.update(wish.but(max_count=4, broken_sibling=True)) == "UPDATE_ROLLBACK_COMPLETE", life.story()
    assert cluster.max_count() == 2
    assert fleet(cluster) == "RUNNING"
    assert life.update(wish.but(max_count=3)) == "UPDATE_COMPLETE", life.story()


def test_nodes_at_work_are_protected(life: Life, cluster: Cluster, base: Base) -> None:
    wish = Wish(cluster.name, updates=STOPS)
    assert life.create(wish) == "CREATE_COMPLETE", life.story()
    base.steer.nodes(cluster.name, "cpu", "cpu", 2, "c7i.large")
    assert life.update(wish.but(max_count=1)) == "UPDATE_ROLLBACK_COMPLETE", life.story()
    assert "2" in life.failures()[0]
    assert cluster.max_count() == 2
    assert fleet(cluster) == "RUNNING"
    assert len(base.api("GET", f"/{cluster.name}/instances?nodeType=COMPUTE")[1]["instances"]) == 2
    allowed = wish.but(max_count=1, updates=(*STOPS, ("RunningJobs", "may-be-killed")))
    assert life.update(allowed) == "UPDATE_COMPLETE", life.story()
    assert cluster.max_count() == 1


def test_a_fleet_that_does_not_run_is_no_success(life: Life, cluster: Cluster, base: Base) -> None:
    wish = Wish(cluster.name)
    assert life.create(wish) == "CREATE_COMPLETE", life.story()
    base.steer.fleet(cluster.name, "PROTECTED")
    assert life.update(wish.but(max_count=3)).startswith("UPDATE_ROLLBACK"), life.story()
    assert "PROTECTED" in life.failures()[0]
    assert life.delete() == "DELETE_COMPLETE", life.story()
    assert cluster.status() == GONE

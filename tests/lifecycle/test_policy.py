"""What an update may do besides changing the cluster: stop its fleet, end its jobs, replace it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from local.control import Outcome

from .deployment import NAME, Base
from .life import GONE, Cluster, Life
from .template import StackSpec

pytestmark = [pytest.mark.e2e, pytest.mark.lifecycle]

STOPS = (("StopFleet", "when-needed"),)


def fleet(cluster: Cluster) -> str:
    """The fleet's status."""
    return str(cluster.base.api("GET", f"/{cluster.name}/computefleet")[1]["status"])


def test_the_fleet_is_stopped_where_it_may_be(life: Life, cluster: Cluster, base: Base) -> None:
    """The way back needs a stopped fleet too. However an update ends, the fleet runs."""
    spec = StackSpec(cluster.name, updates=STOPS)
    assert life.create(spec) == "CREATE_COMPLETE", life.story()
    assert life.update(spec.but(max_count=4, broken_sibling=True)) == "UPDATE_ROLLBACK_COMPLETE", life.story()
    assert (cluster.max_count(), fleet(cluster)) == (2, "RUNNING")
    base.control.fail_update(cluster.name, "Failed to run chef recipe")
    assert life.update(spec.but(max_count=1)) == "UPDATE_ROLLBACK_COMPLETE", life.story()
    assert (cluster.max_count(), fleet(cluster)) == (2, "RUNNING")
    base.control.reset()
    assert life.update(spec.but(instance_type="c7i.xlarge", max_count=1)) == "UPDATE_COMPLETE", life.story()
    assert (cluster.max_count(), fleet(cluster)) == (1, "RUNNING")


@pytest.fixture
def known(base: Base) -> Iterator[Cluster]:
    """The one cluster whose head node the functions may ask: that of the environment."""
    made = Cluster(base, NAME)
    yield made
    base.control.reset()
    if made.status() != GONE:
        made.delete()


def test_jobs_are_protected(known: Cluster, life: Life, base: Base) -> None:
    """Idle nodes are no obstacle, running jobs are, unless the environment lets them be killed."""
    spec = StackSpec(known.name, max_count=4, updates=STOPS)
    assert life.create(spec) == "CREATE_COMPLETE", life.story()
    base.control.nodes(known.name, "cpu", "cpu", 2, "c7i.large")
    base.control.jobs(known.name, 3)
    assert life.update(spec.but(max_count=1)) == "UPDATE_ROLLBACK_COMPLETE", life.story()
    assert "3 jobs run" in life.failures()[0]
    assert known.max_count() == 4
    assert fleet(known) == "RUNNING"
    assert len(base.api("GET", f"/{known.name}/instances?nodeType=ComputeNode")[1]["instances"]) == 2
    assert life.update(spec.but(cluster=f"{known.name}-b")) == "UPDATE_ROLLBACK_COMPLETE", life.story()
    assert f"deletes the cluster {known.name}, and 3 jobs run" in life.failures()[-1]
    assert Cluster(base, f"{known.name}-b").status() == GONE
    base.control.jobs(known.name, 0)
    assert life.update(spec.but(max_count=3)) == "UPDATE_COMPLETE", life.story()
    base.control.nodes(known.name, "cpu", "cpu", 2, "c7i.large")
    base.control.jobs(known.name, 3)
    allowed = spec.but(max_count=1, updates=(*STOPS, ("RunningJobs", "may-be-killed")))
    assert life.update(allowed) == "UPDATE_COMPLETE", life.story()
    assert known.max_count() == 1
    assert life.delete() == "DELETE_COMPLETE", life.story()


def test_an_update_fails_where_the_fleet_does_not_run(life: Life, cluster: Cluster, base: Base) -> None:
    """A protected fleet is started once more; one that is protected again fails the update."""
    spec = StackSpec(cluster.name, strategy="TERMINATE")
    assert life.create(spec) == "CREATE_COMPLETE", life.story()
    base.control.fleet(cluster.name, "PROTECTED")
    assert life.update(spec.but(max_count=3)) == "UPDATE_COMPLETE", life.story()
    assert fleet(cluster) == "RUNNING"
    base.control.fleet(cluster.name, "PROTECTED")
    base.control.outcome(Outcome(cluster.name, "fleet-start", "fail"))
    assert life.update(spec.but(max_count=4)) == "UPDATE_ROLLBACK_COMPLETE", life.story()
    assert "PROTECTED" in life.failures()[0]
    assert cluster.max_count() == 3
    assert fleet(cluster) == "RUNNING"
    assert life.delete() == "DELETE_COMPLETE", life.story()
    assert cluster.status() == GONE

"""Operations that take longer than CloudFormation waits for one resource.

The hour is 40 seconds here. The shortest window that the product takes is one minute, so the emulator reports the work
as begun 40 seconds earlier than it was, and its CloudFormation waits 40 seconds for each custom resource of the stack.
"""

from __future__ import annotations

import pytest

from local.control import Limit

from .deployment import Base
from .life import GONE, Cluster, Life
from .template import StackSpec

pytestmark = [pytest.mark.e2e, pytest.mark.lifecycle]

EARLIER_S = 40
HOUR_S = 40
LONGER_S = 45


@pytest.fixture
def spec(base: Base, life: Life, cluster: Cluster) -> StackSpec:
    """A stack that gives each operation three windows."""
    base.control.limit(Limit(life.name, custom_resource_s=HOUR_S, begun_s_ago=EARLIER_S))
    return StackSpec(cluster.name, strategy="TERMINATE", timeout_minutes=3, answer_minutes=1)


def test_creation_and_deletion(base: Base, life: Life, cluster: Cluster, spec: StackSpec) -> None:
    base.control.delay(cluster.name, "create", LONGER_S)
    assert life.create(spec) == "CREATE_COMPLETE", life.story()
    assert cluster.status() == "CREATE_COMPLETE"
    assert life.outputs()["Status"] == "CREATE_COMPLETE"
    assert life.outputs()["HeadNodeInstanceId"].startswith("i-")
    base.control.delay(cluster.name, "delete", LONGER_S)
    assert life.delete() == "DELETE_COMPLETE", life.story()
    assert cluster.status() == GONE


def test_update_that_fails_late(base: Base, life: Life, cluster: Cluster, spec: StackSpec) -> None:
    """The verdict comes after the cluster's resource was answered for; the stack goes back, and on."""
    assert life.create(spec) == "CREATE_COMPLETE", life.story()
    base.control.fail_update(cluster.name, "Failed to run chef recipe slurm::update", after_s=LONGER_S)
    assert life.update(spec.but(max_count=3)) == "UPDATE_ROLLBACK_COMPLETE", life.story()
    assert "slurm::update" in "".join(life.failures())
    assert cluster.max_count() == 2
    assert life.update(spec.but(max_count=4)) == "UPDATE_COMPLETE", life.story()
    assert cluster.max_count() == 4


def test_creation_that_fails_late(base: Base, life: Life, cluster: Cluster, spec: StackSpec) -> None:
    base.control.fail_create(cluster.name, "Failed to execute OnNodeConfigured script 1", after_s=LONGER_S)
    assert life.create(spec) == "ROLLBACK_COMPLETE", life.story()
    assert "OnNodeConfigured script 1" in "".join(life.failures())
    assert cluster.status() == GONE

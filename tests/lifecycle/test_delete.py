"""Deletions."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from .deployment import Base
from .life import GONE, Cluster, Life
from .template import StackSpec

pytestmark = [pytest.mark.e2e, pytest.mark.lifecycle]


def test_failure_and_again(life: Life, cluster: Cluster, spec: StackSpec, base: Base) -> None:
    base.control.fail_delete(spec.cluster, "resource sg-0123 has a dependent object", after_s=1)
    assert life.delete() == "DELETE_FAILED", life.story()
    assert "resource sg-0123 has a dependent object" in life.failures()[-1]
    assert cluster.status() == "DELETE_FAILED"
    with pytest.raises(ClientError, match="is in DELETE_FAILED state and can not be updated"):
        life.stacks.create_change_set(StackName=life.name, ChangeSetName="update", UsePreviousTemplate=True)
    assert life.delete() == "DELETE_COMPLETE", life.story()
    assert cluster.status() == GONE


@pytest.mark.usefixtures("spec")
def test_deleted_outside(life: Life, cluster: Cluster) -> None:
    cluster.delete()
    assert life.delete() == "DELETE_COMPLETE", life.story()


@pytest.mark.usefixtures("spec")
def test_being_deleted_outside(life: Life, cluster: Cluster, base: Base) -> None:
    base.control.delay(cluster.name, "delete", 3)
    assert base.api("DELETE", f"/{cluster.name}")[0] == 202
    assert life.delete() == "DELETE_COMPLETE", life.story()
    assert cluster.status() == GONE


def test_retain(life: Life, cluster: Cluster, base: Base) -> None:
    assert life.create(StackSpec(cluster.name, retain=True)) == "CREATE_COMPLETE", life.story()
    assert life.delete() == "DELETE_COMPLETE"
    assert cluster.status() == "CREATE_COMPLETE"
    assert not [call for call in base.control.calls() if call.method == "DELETE"]


def test_failed_rollback_of_a_creation(life: Life, cluster: Cluster, base: Base) -> None:
    """What the creation made cannot be deleted at first; the stack can be, later."""
    base.control.fail_delete(cluster.name, "resource sg-0123 has a dependent object")
    assert life.create(StackSpec(cluster.name, broken_sibling=True)) == "ROLLBACK_FAILED", life.story()
    assert cluster.status() == "DELETE_FAILED"
    assert life.delete() == "DELETE_COMPLETE", life.story()
    assert cluster.status() == GONE

"""Updates and their rollbacks. One stack goes through all of them: after each it takes the next, and can be deleted at
the end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from .conftest import STACK
from .deployment import Base
from .life import GONE, Cluster, Life
from .template import StackSpec, configuration

pytestmark = [pytest.mark.e2e, pytest.mark.lifecycle]


@pytest.fixture(scope="module")
def kept(deployed: Base) -> Iterator[tuple[Life, Cluster]]:
    """The stack, and its cluster."""
    life, cluster = Life(deployed, STACK), Cluster(deployed, "updated")
    yield life, cluster
    deployed.control.reset()
    assert life.delete() == "DELETE_COMPLETE", life.story()
    assert cluster.status() == GONE


@pytest.fixture
def life(kept: tuple[Life, Cluster], base: Base) -> Life:  # noqa: ARG001 -- base removes instructions
    return kept[0]


@pytest.fixture
def cluster(kept: tuple[Life, Cluster]) -> Cluster:
    return kept[1]


@pytest.fixture
def spec(life: Life, cluster: Cluster) -> StackSpec:
    """What the stack has; made anew where the last test took it away. Its fleet may be stopped for fewer nodes."""
    if life.status() == "DELETE_COMPLETE":
        assert life.create(StackSpec(cluster.name, strategy="TERMINATE")) == "CREATE_COMPLETE", life.story()
    return StackSpec(cluster.name, max_count=cluster.max_count(), strategy="TERMINATE")


def goes_on(life: Life, cluster: Cluster, spec: StackSpec) -> None:
    """The stack takes an update."""
    assert life.update(spec) == "UPDATE_COMPLETE", life.story()
    assert cluster.status() == "UPDATE_COMPLETE"
    assert cluster.max_count() == spec.max_count


def test_create_update_and_delete(life: Life, cluster: Cluster, spec: StackSpec, base: Base) -> None:
    assert cluster.status() == "CREATE_COMPLETE"
    # And not the nested stack of its queues.
    assert [item["clusterName"] for item in base.api("GET", "")[1]["clusters"]] == [cluster.name]
    assert cluster.owner().startswith(life.stack_id)
    assert life.outputs()["Status"] == "CREATE_COMPLETE"
    assert life.outputs()["HeadNodeInstanceId"].startswith("i-")
    assert life.update(spec.but(assets="2")) == "UPDATE_COMPLETE", life.story()
    assert cluster.status() == "CREATE_COMPLETE"
    assert not [call for call in base.control.calls() if call.method == "PUT"]
    assert life.update(spec.but(max_count=3)) == "UPDATE_COMPLETE", life.story()
    assert life.outputs()["Status"] == "UPDATE_COMPLETE"
    assert cluster.max_count() == 3
    base.control.fail_update(cluster.name, "Failed to run chef recipe")
    assert life.update(spec.but(max_count=4)) == "UPDATE_ROLLBACK_COMPLETE", life.story()
    assert life.delete() == "DELETE_COMPLETE", life.story()
    assert cluster.status() == GONE


REFUSED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"max_count": 1}, "MaxCount"),
    ({"max_count": -10}, "Must be greater than or equal to 1"),
    ({"instance_type": "c7i.xlarge"}, "InstanceType"),
    ({"extra": (("Image", {"Os": "alinux2023"}),)}, "Os"),
    ({"script": "s3://invalid", "max_count": 3}, "s3://invalid"),
)


def test_refused(life: Life, cluster: Cluster, spec: StackSpec) -> None:
    """One refusal after the other, of the schema and of the update policies; the cluster does not notice."""
    strict = spec.but(strategy=None)
    goes_on(life, cluster, strict.but(max_count=spec.max_count + 1))
    before, failed = cluster.base.api("GET", f"/{cluster.name}")[1]["lastUpdatedTime"], len(life.failures())
    for count, (change, said) in enumerate(REFUSED, start=1):
        assert life.update(strict.but(**change)) == "UPDATE_ROLLBACK_COMPLETE", life.story()
        assert len(life.failures()) == failed + count
        assert said in life.failures()[-1]
    assert cluster.max_count() == spec.max_count + 1
    assert cluster.base.api("GET", f"/{cluster.name}")[1]["lastUpdatedTime"] == before
    goes_on(life, cluster, spec)


def test_update_that_was_made_outside(life: Life, cluster: Cluster, spec: StackSpec, base: Base) -> None:
    """Somebody else has raised the count to what the template will say."""
    raised = spec.but(max_count=spec.max_count + 1)
    tags = [{"Key": "trainyard:owner", "Value": cluster.owner()}]
    body = {"clusterConfiguration": json.dumps({**configuration(base, raised), "Tags": tags})}
    assert base.api("PUT", f"/{cluster.name}", body)[0] == 202
    cluster.until("UPDATE_COMPLETE")
    assert life.update(raised) == "UPDATE_COMPLETE", life.story()


def test_tags_reach_the_cluster(life: Life, cluster: Cluster, spec: StackSpec, base: Base) -> None:
    owner = cluster.owner()
    tags = [{"Key": "project", "Value": "one"}]
    assert life.update(spec.but(extra=(("Tags", tags),))) == "UPDATE_COMPLETE", life.story()
    found = {tag["key"]: tag["value"] for tag in base.api("GET", f"/{cluster.name}")[1]["tags"]}
    assert found["project"] == "one"
    assert cluster.owner() == owner
    goes_on(life, cluster, spec)


def test_cluster_rolls_back(life: Life, cluster: Cluster, spec: StackSpec, base: Base) -> None:
    base.control.fail_update(cluster.name, "Failed to run chef recipe slurm::update, see /var/log/chef-client.log")
    assert life.update(spec.but(max_count=spec.max_count + 1)) == "UPDATE_ROLLBACK_COMPLETE", life.story()
    assert "slurm::update" in life.failures()[-1]
    assert cluster.status() == "UPDATE_FAILED"
    assert cluster.max_count() == spec.max_count
    goes_on(life, cluster, spec.but(max_count=spec.max_count + 2))


def test_sibling_fails_after_a_raise(life: Life, cluster: Cluster, spec: StackSpec) -> None:
    """The rollback asks for fewer nodes than the cluster has by then."""
    status = life.update(spec.but(max_count=spec.max_count + 1, broken_sibling=True))
    assert status == "UPDATE_ROLLBACK_COMPLETE", life.story()
    assert cluster.max_count() == spec.max_count


def test_cancelled(life: Life, cluster: Cluster, spec: StackSpec, base: Base) -> None:
    """CloudFormation sends the rollback's Update while the first one is still at work."""
    base.control.delay(cluster.name, "update", 4)
    life.update(spec.but(max_count=spec.max_count + 1), wait=False)
    cluster.until("UPDATE_IN_PROGRESS")
    life.stacks.cancel_update_stack(StackName=life.name)
    assert life.settled() == "UPDATE_ROLLBACK_COMPLETE", life.story()
    assert "cancelled" in life.failures()[-1]
    assert cluster.max_count() == spec.max_count
    goes_on(life, cluster, spec.but(max_count=spec.max_count + 2))


def test_rename_fails(life: Life, cluster: Cluster, spec: StackSpec, base: Base) -> None:
    new = Cluster(base, f"{cluster.name}-b")
    base.control.fail_create(new.name, "Failed to execute OnNodeConfigured script 1")
    assert life.update(spec.but(cluster=new.name)) == "UPDATE_ROLLBACK_COMPLETE", life.story()
    new.until(GONE)
    assert cluster.status() == "UPDATE_COMPLETE"


def test_rename_to_a_taken_name(life: Life, cluster: Cluster, spec: StackSpec, base: Base) -> None:
    foreign = Cluster(base, f"{cluster.name}-c")
    foreign.make(configuration(base, StackSpec(foreign.name)))
    try:
        assert life.update(spec.but(cluster=foreign.name)) == "UPDATE_ROLLBACK_COMPLETE", life.story()
        assert foreign.status() == "CREATE_COMPLETE"
        goes_on(life, cluster, spec.but(max_count=spec.max_count + 1))
        assert foreign.status() == "CREATE_COMPLETE"
    finally:
        foreign.delete()


def test_sibling_fails_after_a_rename(life: Life, cluster: Cluster, spec: StackSpec, base: Base) -> None:
    new = Cluster(base, f"{cluster.name}-d")
    assert life.update(spec.but(cluster=new.name, broken_sibling=True)) == "UPDATE_ROLLBACK_COMPLETE", life.story()
    new.until(GONE)
    goes_on(life, cluster, spec.but(max_count=spec.max_count + 1))


def test_deleted_outside(life: Life, cluster: Cluster, spec: StackSpec) -> None:
    """There is nothing to lose any more: the update makes the cluster anew."""
    cluster.delete()
    assert life.update(spec.but(max_count=3)) == "UPDATE_COMPLETE", life.story()
    assert cluster.status() == "CREATE_COMPLETE"
    assert cluster.owner().startswith(life.stack_id)
    goes_on(life, cluster, spec.but(max_count=4))


def test_renamed(life: Life, cluster: Cluster, spec: StackSpec, base: Base) -> None:
    """The new cluster first, then the old one goes."""
    new = Cluster(base, f"{cluster.name}-e")
    base.control.delay(new.name, "create", 2)
    life.update(spec.but(cluster=new.name), wait=False)
    new.until("CREATE_IN_PROGRESS")
    assert cluster.status() == "UPDATE_COMPLETE"
    assert life.settled() == "UPDATE_COMPLETE", life.story()
    assert new.status() == "CREATE_COMPLETE"
    cluster.until(GONE)
    goes_on(life, new, spec.but(cluster=new.name, max_count=spec.max_count + 1))
    assert life.delete() == "DELETE_COMPLETE", life.story()
    assert new.status() == GONE


def test_taken_over_by_somebody_else(life: Life, cluster: Cluster, spec: StackSpec, base: Base) -> None:
    """Deleted, and made anew by somebody else under the same name: no longer ours."""
    cluster.delete()
    cluster.make(configuration(base, spec))
    base.control.reset()
    life.update(spec.but(max_count=spec.max_count + 1))
    assert "does not belong" in life.failures()[-1]
    assert life.delete() == "DELETE_COMPLETE", life.story()
    assert cluster.status() == "CREATE_COMPLETE"
    assert {call.method for call in base.control.calls()} == {"GET"}
    cluster.delete()

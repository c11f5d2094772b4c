"""Events as CloudFormation and Lambda may deliver them: twice, late, for what never was, before an answer."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.stubs import served

from .deployment import Base
from .events import Sender
from .life import GONE, Cluster
from .template import StackSpec, configuration

pytestmark = [pytest.mark.e2e, pytest.mark.lifecycle]
# Long enough for a second execution to have sent something, at 0.6 s a poll.
SETTLE_S = 3


@pytest.fixture
def sender(base: Base, name: str) -> Iterator[Sender]:
    """Sends events of one resource."""
    with served("/answer") as server:
        yield Sender(base, server, name)


def sent(base: Base, method: str) -> int:
    """How often the handler called the API so; dry runs do not count."""
    return len([call for call in base.control.calls() if call.method == method and "dryrun=true" not in call.path])


def test_the_same_event_twice(base: Base, cluster: Cluster, sender: Sender) -> None:
    spec = StackSpec(cluster.name)
    create = sender.event("Create", spec)
    sender.send(create)
    sender.send(create)
    answer = sender.answer(create)
    assert answer["Status"] == "SUCCESS", answer
    sender.send(create)
    time.sleep(SETTLE_S)
    assert sent(base, "POST") == 1
    assert len(sender.answers(create)) == 1
    delete = sender.event("Delete", spec, physical_id=answer["PhysicalResourceId"])
    sender.send(delete)
    sender.send(delete)
    assert sender.answer(delete)["Status"] == "SUCCESS"
    assert cluster.status() == GONE
    sender.send(delete)
    time.sleep(SETTLE_S)
    assert sent(base, "DELETE") == 1


def test_an_older_update_arrives_late(base: Base, cluster: Cluster, sender: Sender) -> None:
    first, second, third = (StackSpec(cluster.name, max_count=count, strategy="TERMINATE") for count in (2, 3, 4))
    created = sender.ask(sender.event("Create", first, age_s=30))
    physical_id = created["PhysicalResourceId"]
    late = sender.event("Update", second, old=first, physical_id=physical_id, age_s=20)
    assert sender.ask(sender.event("Update", third, old=second, physical_id=physical_id))["Status"] == "SUCCESS"
    assert cluster.max_count() == 4
    sender.send(late)
    time.sleep(SETTLE_S)
    assert cluster.max_count() == 4
    assert sent(base, "PUT") == 1


def test_an_update_arrives_after_the_deletion(base: Base, cluster: Cluster, sender: Sender) -> None:
    first, second = StackSpec(cluster.name), StackSpec(cluster.name, max_count=3)
    physical_id = sender.ask(sender.event("Create", first, age_s=30))["PhysicalResourceId"]
    late = sender.event("Update", second, old=first, physical_id=physical_id, age_s=20)
    assert sender.ask(sender.event("Delete", first, physical_id=physical_id))["Status"] == "SUCCESS"
    sender.send(late)
    time.sleep(SETTLE_S)
    assert cluster.status() == GONE
    assert (sent(base, "POST"), sent(base, "PUT")) == (1, 0)


@pytest.mark.parametrize("known", ["never made", "made-up id"])
def test_delete_of_what_never_was(base: Base, cluster: Cluster, sender: Sender, known: str) -> None:
    """The name may belong to somebody else by now."""
    spec = StackSpec(cluster.name)
    cluster.make(configuration(base, spec))
    physical_id = f"not-created/{spec.cluster}" if known == "never made" else "stack-Cluster-1AB2C3D4E5F6G"
    base.control.reset()
    assert sender.ask(sender.event("Delete", spec, physical_id=physical_id))["Status"] == "SUCCESS"
    assert cluster.status() == "CREATE_COMPLETE"
    assert sent(base, "DELETE") == 0


def test_delete_while_the_creation_is_at_work(base: Base, cluster: Cluster, sender: Sender) -> None:
    """A sibling failed: CloudFormation cancels the creation and sends Delete, by an id that it made up."""
    spec = StackSpec(cluster.name)
    base.control.delay(cluster.name, "create", 5)
    create = sender.event("Create", spec, age_s=2)
    sender.send(create)
    cluster.until("CREATE_IN_PROGRESS")
    answer = sender.ask(sender.event("Delete", spec, physical_id="stack-Cluster-1AB2C3D4E5F6G"))
    assert answer["Status"] == "SUCCESS", answer
    assert cluster.status() == GONE
    time.sleep(SETTLE_S)
    assert cluster.status() == GONE
    assert sent(base, "POST") == 1

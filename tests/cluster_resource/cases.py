"""Tables of cases: one event each, and what must come of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from cluster_resource.operation import Verdict
from tests.cluster_resource.events import FakeAws, Machine, text_of
from tests.cluster_resource.fake_api import FakeApi


@dataclass
class Case:
    """One event, and what must come of it.

    Attributes:
        says: texts that the reason contains.
        changing: the requests that change something, such as "delete local"; None: not compared.
        physical_id: empty: not compared.
        polls: number of polls; None: not compared.
    """

    api: FakeApi
    event: dict[str, Any]
    status: str = "SUCCESS"
    says: tuple[str, ...] = ()
    changing: tuple[str, ...] | None = None
    physical_id: str = ""
    polls: int | None = None
    aws: FakeAws = field(default_factory=FakeAws)

    def check(self) -> Verdict:
        machine = Machine(self.api, self.aws)
        verdict = machine.run(self.event, limit=10_000)
        assert verdict.status == self.status, verdict.reason
        assert all(text in verdict.reason for text in self.says), verdict.reason
        if self.changing is not None:
            assert tuple(" ".join(request) for request in self.api.changing) == self.changing
        assert self.physical_id in ("", verdict.physical_id)
        assert self.polls in (None, machine.polls)
        wanted, made = self.event["ResourceProperties"], self.event["ResourceType"] == "Custom::ParallelCluster"
        if made and verdict.status == "SUCCESS" and self.event["RequestType"] != "Delete" and "Frozen" not in wanted:
            cluster = self.api.clusters[wanted["ClusterName"]]
            assert cluster.fleet == "RUNNING" and cluster.configuration == text_of(wanted)
        return verdict


def table(cases: Mapping[str, Case]) -> pytest.MarkDecorator:
    """Each test gets a copy (the fixture `case`), because the same process may run it a second time."""
    return pytest.mark.parametrize("case", cases.values(), ids=cases, indirect=True)

"""A turn under way: what it works on, what it has seen, and what it has written down."""

from dataclasses import dataclass, replace
from typing import Any

from cluster_resource import decide
from cluster_resource.api import ClusterApi, ClusterView
from cluster_resource.aws import Aws
from cluster_resource.decide import Decision, Wanted
from cluster_resource.policy import Policy
from cluster_resource.properties import ClusterProperties, Place
from cluster_resource.work_item import Work


@dataclass
class Turn:
    """One look, one decision, at most one call that changes something; `work` is replaced as it goes on.

    `properties` are those of the wanted cluster, None where it is only deleted.
    """

    api: ClusterApi
    aws: Aws
    work: Work
    place: Place
    wanted: Wanted
    policy: Policy
    now: float
    properties: ClusterProperties | None = None
    view: ClusterView | None = None
    seen: str = "not yet"

    @property
    def name(self) -> str:
        return self.wanted.name

    @property
    def text(self) -> str:
        return self.properties.configuration_text if self.properties else ""

    def look(self) -> None:
        self.view = self.api.describe(self.name)
        self.seen = str(self.view) if self.view else "no such cluster"

    def in_time(self, decision: Decision) -> Decision:
        return decide.decide_poll(
            decision,
            now=self.now,
            deadline=self.work.deadline,
            wanted=self.wanted,
            seen=self.seen,
            note=self.work.progress.note,
        )

    def progress(self, **changes: Any) -> Work:  # noqa: ANN401 - the fields of Progress
        self.work = replace(self.work, progress=replace(self.work.progress, **changes))
        return self.work

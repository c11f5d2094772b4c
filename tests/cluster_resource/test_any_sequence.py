"""Random sequences of CloudFormation events, faults and outcomes, and what must hold after each of them.

No cluster of another owner is changed; no SUCCESS without the state; no protected job ends; no event deletes the whole
cluster that it created itself; no sequence ends in a stack that cannot go on. `pytest --hypothesis-profile=deep` runs
some thousand sequences.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from cluster_resource.api import ApiAccessError, ApiError, ApiUnknownError
from tests.cluster_resource.events import properties
from tests.cluster_resource.fake_api import Cluster, FakeApi, foreign
from tests.cluster_resource.stack_model import Stack, is_ours

NAMES = ("blue", "green")
UPDATABLE = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE")
METHODS = ("describe", "create", "update", "dry run", "delete", "fleet", "request_fleet", "compute_nodes")
OUTCOMES = (
    ("CREATE_IN_PROGRESS", "ROLLBACK_IN_PROGRESS"),
    ("ROLLBACK_IN_PROGRESS", "ROLLBACK_FAILED"),
    ("UPDATE_IN_PROGRESS", "UPDATE_ROLLBACK_IN_PROGRESS"),
    ("UPDATE_IN_PROGRESS", "UPDATE_FAILED"),
    ("UPDATE_ROLLBACK_IN_PROGRESS", "UPDATE_ROLLBACK_FAILED"),
    ("DELETE_IN_PROGRESS", "DELETE_FAILED"),
)
FAULTS: tuple[Callable[[], tuple[Exception, bool | str]], ...] = (
    lambda: (ApiUnknownError("HTTP 504: Endpoint request timed out"), True),
    lambda: (ApiUnknownError("HTTP 504: Endpoint request timed out"), "late"),
    lambda: (ApiUnknownError("ConnectionResetError"), False),
    lambda: (ApiError(429, "Too Many Requests"), False),
    lambda: (ApiAccessError("the security token is expired"), False),
)
LOST = FAULTS[:3]  # no answer: done, done later, or not done
CHANGING = ("create", "update", "delete", "request_fleet")


@st.composite
def wanted(draw: st.DrawFn) -> dict[str, Any]:
    """Properties of a cluster: name, size, system, policy, time limit."""
    hours = {"TimeoutMinutes": "180", "WaitsBehind": "3", "WaitsBefore": "0"} if draw(st.booleans()) else {}
    given = properties(draw(st.sampled_from(NAMES)), draw(st.sampled_from((1, 2, 4))), **hours)
    if draw(st.booleans()):
        given["Configuration"]["Image"] = {"Os": "ubuntu2404"}
    given["AssetsVersion"] = draw(st.sampled_from(("1", "2")))
    given["Updates"] = {
        "StopFleet": draw(st.sampled_from(("never", "when-needed"))),
        "Replace": draw(st.sampled_from(("never", "when-needed"))),
        "RunningJobs": draw(st.sampled_from(("protect", "protect", "may-be-killed"))),
    }
    return given


@st.composite
def trouble_of_one_operation(draw: st.DrawFn) -> dict[str, Any]:
    """What happens to one operation: faults of the API, an end other than success, time, killed steps, jobs."""
    faults = draw(
        st.dictionaries(st.sampled_from(METHODS), st.lists(st.sampled_from(FAULTS), min_size=1, max_size=3), max_size=2)
    )
    # One call that changes something, and whose answer is lost: the likeliest fault of the API.
    lost = draw(st.sampled_from((None, *CHANGING)))
    if lost:
        faults[lost] = [draw(st.sampled_from(LOST)), *faults.get(lost, ())]
    return {
        "faults": faults,
        "outcomes": dict(draw(st.lists(st.sampled_from(OUTCOMES), max_size=2))),
        "looks": draw(st.sampled_from((0, 0, 0, 3, 230, 400, 800))),
        "crashes": draw(st.lists(st.integers(0, 6), max_size=2)),
        "nodes": draw(st.sampled_from((0, 0, 2))),
        "jobs": draw(st.sampled_from((0, 3, None))),
        "later fails": draw(st.sampled_from((False, False, True))),
        "twice": draw(st.sampled_from((None, 0, 1, 5))),
    }


@st.composite
def cancelling(draw: st.DrawFn) -> dict[str, Any] | None:
    """A cancelled operation: after how many polls, and for how many looks its call is in flight."""
    polls = draw(st.sampled_from((None, None, None, 0, 2)))
    return None if polls is None else {"polls": polls, "in flight": draw(st.sampled_from((0, 1, 2, 3)))}


SOMETIMES = st.one_of(st.none(), trouble_of_one_operation(), trouble_of_one_operation())
AT_FIRST = st.one_of(st.none(), st.none(), st.none(), trouble_of_one_operation())


class Sequences(RuleBasedStateMachine):
    """One stack, from its creation to its deletion."""

    def __init__(self) -> None:
        super().__init__()
        self.api = SequenceApi()
        self.stack = Stack(self.api)
        self.foreign: dict[str, Cluster] = {}

    @initialize(
        taken=st.sampled_from((None, None, None, None, *NAMES)),
        given=wanted(),
        trouble=AT_FIRST,
        cancelled=cancelling(),
    )
    def first(
        self,
        taken: str | None,
        given: dict[str, Any],
        trouble: dict[str, Any] | None,
        cancelled: dict[str, Any] | None,
    ) -> None:
        if taken:
            self.foreign[taken] = self.api.clusters[taken] = foreign(taken)
        self._create(given, trouble, cancelled)

    @precondition(lambda self: self.stack.status == "NONE")
    @rule(given=wanted(), trouble=SOMETIMES, cancelled=cancelling())
    def create(self, given: dict[str, Any], trouble: dict[str, Any] | None, cancelled: dict[str, Any] | None) -> None:
        self._create(given, trouble, cancelled)

    @precondition(lambda self: self.stack.status in UPDATABLE)
    @rule(given=wanted(), trouble=SOMETIMES, cancelled=cancelling())
    def update(self, given: dict[str, Any], trouble: dict[str, Any] | None, cancelled: dict[str, Any] | None) -> None:
        later_fails, polls = self._prepare(trouble), self._cancel(cancelled)
        with self.api.protecting(self.stack, given):
            self.stack.update(given, later_fails=later_fails, cancelled_after=polls)

    @precondition(lambda self: self.stack.status in UPDATABLE)
    @rule(method=st.sampled_from(CHANGING), fault=st.sampled_from(LOST), by_hand=st.booleans())
    def replace_with_a_lost_answer(
        self, method: str, fault: Callable[[], tuple[Exception, bool | str]], by_hand: bool
    ) -> None:
        """A new cluster under the same name, because of its system, or because somebody deleted it."""
        self._prepare(None)
        present = self.stack.properties
        other = "ubuntu2404" if present["Configuration"]["Image"]["Os"] == "alinux2023" else "alinux2023"
        configuration = {**present["Configuration"], "Image": {"Os": other}}
        if by_hand:
            self.somebody_deletes_our_cluster(present["ClusterName"])
        self.api.faults[method] = [fault()]
        self.stack.update({**present, "Configuration": configuration, "Updates": {"Replace": "when-needed"}})

    @precondition(lambda self: self.stack.status == "UPDATE_ROLLBACK_FAILED")
    @rule(trouble=SOMETIMES)
    def continue_update_rollback(self, trouble: dict[str, Any] | None) -> None:
        self._prepare(trouble)
        self.stack.roll_back()

    @precondition(lambda self: self.stack.status not in ("NONE", "UPDATE_ROLLBACK_FAILED", *UPDATABLE))
    @rule(trouble=SOMETIMES)
    def delete_what_failed(self, trouble: dict[str, Any] | None) -> None:
        self._prepare(trouble)
        self.stack.delete()

    @precondition(lambda self: self.stack.status in UPDATABLE)
    @rule(trouble=trouble_of_one_operation(), really=st.sampled_from((True, False, False)))
    def delete(self, trouble: dict[str, Any], really: bool) -> None:
        if not really:
            return
        self._prepare(trouble)
        self.stack.delete()

    @rule(name=st.sampled_from(NAMES), fleet=st.sampled_from(("STOPPED", "PROTECTED", "STOPPING")))
    def somebody_stops_the_fleet(self, name: str, fleet: str) -> None:
        if name in self.api.clusters and name not in self.foreign:
            self.api.clusters[name].fleet = fleet

    @rule(name=st.sampled_from(NAMES))
    def somebody_deletes_our_cluster(self, name: str) -> None:
        if name not in self.foreign:
            self.api.clusters.pop(name, None)

    def _create(self, given: dict[str, Any], trouble: dict[str, Any] | None, cancelled: dict[str, Any] | None) -> None:
        later_fails = self._prepare(trouble)
        self.stack.create(given, later_fails=later_fails, cancelled_after=self._cancel(cancelled))

    def _cancel(self, cancelled: dict[str, Any] | None) -> int | None:
        """Prepare a cancelled operation. Returns after how many polls it is cancelled."""
        if not cancelled:
            return None
        if cancelled["in flight"]:
            self.api.late_looks = cancelled["in flight"]
            for method in ("create", "update"):
                self.api.faults.setdefault(method, []).insert(0, (ApiUnknownError("no answer yet"), "late"))
        return int(cancelled["polls"])

    def _prepare(self, trouble: dict[str, Any] | None) -> bool:
        """Prepare the API for an operation. Returns whether a later resource of the stack fails."""
        self.api.calm()
        self.stack.crashes, self.stack.aws.jobs = [], 0
        if not trouble:
            return False
        self.api.faults.update({method: [kind() for kind in kinds] for method, kinds in trouble["faults"].items()})
        self.api.outcomes.update(trouble["outcomes"])
        self.api.looks = trouble["looks"]
        self.stack.crashes, self.stack.aws.jobs = trouble["crashes"], trouble["jobs"]
        if trouble["twice"] is not None and self.stack.past:
            self.stack.deliver_again(trouble["twice"])
        for name, cluster in self.api.clusters.items():
            if name not in self.foreign:
                cluster.compute_nodes = trouble["nodes"]
        return bool(trouble["later fails"])

    @invariant()
    def nobody_elses_cluster_was_touched(self) -> None:
        for name, cluster in self.foreign.items():
            assert self.api.clusters.get(name) is cluster, self._story()
            assert cluster.stack_status == "CREATE_COMPLETE" and cluster.fleet == "RUNNING", self._story()
        touched = {name for _, name in self.api.changing} & set(self.foreign)
        assert not touched - {name for call, name in self.api.changing if call == "create"}, self._story()

    def teardown(self) -> None:
        """Whatever happened: when people do what the answers advise, the stack goes on, and leaves nothing behind."""
        self.api.calm()
        self.stack.crashes, self.stack.aws.jobs = [], 0
        for cluster in self.api.clusters.values():
            if cluster.stack_status in ("UPDATE_ROLLBACK_FAILED", "UPDATE_FAILED") and is_ours(cluster):
                cluster.stack_status, cluster.configuration = "UPDATE_ROLLBACK_COMPLETE", cluster.former
        if self.stack.status == "UPDATE_ROLLBACK_FAILED":
            self.stack.roll_back()
        assert self.stack.status != "UPDATE_ROLLBACK_FAILED", self._story()
        if self.stack.status in UPDATABLE:
            larger = {**self.stack.properties, "AssetsVersion": "3"}
            self.stack.update(larger)
            assert self.stack.status == "UPDATE_COMPLETE", self._story()
        if self.stack.status != "NONE":
            self.stack.delete()
        assert self.stack.status == "NONE", self._story()
        for name in self.stack.left_with_jobs:
            self.api.clusters.pop(name, None)
        left = [cluster for cluster in self.api.clusters.values() if is_ours(cluster)]
        assert all(cluster.stack_status.startswith("DELETE") for cluster in left), f"{left}\n{self._story()}"

    def _story(self) -> str:
        return "\n".join(self.stack.log)


class SequenceApi(FakeApi):
    """Clusters stay as they are for a number of looks; jobs that are protected must not end."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0
        self._guarded: Callable[[str], bool] = lambda _: False

    def describe(self, name: str) -> Any:  # noqa: ANN401
        self.looks = max(0, self.looks - 1)
        self.frozen = self.looks > 0
        return super().describe(name)

    def calm(self) -> None:
        self.faults.clear()
        self.outcomes.clear()
        self.looks, self.frozen = 0, False

    @contextmanager
    def protecting(self, stack: Stack, given: dict[str, Any]) -> Iterator[None]:
        """During an update that must protect jobs, no call may end some on the cluster that it keeps."""
        kills = any(item.get("Updates", {}).get("RunningJobs") == "may-be-killed" for item in (given, stack.properties))
        kept = stack.properties.get("ClusterName")
        self._guarded = lambda name: not kills and name == kept and stack.aws.jobs != 0
        yield
        self._guarded = lambda _: False

    def request_fleet(self, name: str, *, running: bool) -> None:
        if not running:
            self.guard(name)
        super().request_fleet(name, running=running)

    def delete(self, name: str) -> None:
        cluster = self.clusters.get(name)
        if cluster and cluster.stack_status in UPDATABLE:
            self.guard(name)
        whole = cluster and cluster.stack_status in ("CREATE_IN_PROGRESS", *UPDATABLE)
        assert not (whole and any(cluster is new for new in self.created)), f"{name} was created by this event"
        super().delete(name)

    def guard(self, name: str) -> None:
        cluster = self.clusters.get(name)
        if cluster and cluster.compute_nodes and self._guarded(name):
            raise AssertionError(f"the jobs of {name} were to be protected")


def test_every_sequence_can_go_on(pytestconfig: pytest.Config) -> None:
    deep = pytestconfig.getoption("--hypothesis-profile") == "deep"
    profile = (
        settings.get_profile("deep") if deep else settings(max_examples=120, stateful_step_count=8, derandomize=True)
    )
    run_state_machine_as_test(
        Sequences,
        settings=settings(
            profile,
            deadline=None,
            # A failure shows its events; making it shorter takes minutes.
            phases=[Phase.explicit, Phase.reuse, Phase.generate],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
        ),
    )

"""Every decision: each operation, over each status of the cluster and each progress, compared with decisions.txt.

`python -m tests.cluster_resource.test_decide` writes that file, for review in git.
"""

from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path

import pytest

from cluster_resource import decide
from cluster_resource.api import OWNER_TAG, ClusterView
from cluster_resource.decide import Decision, Delete, Fail, Succeed, Update, Wait, Wanted
from cluster_resource.operation import Progress
from tests.cluster_resource.fake_api import SHOWN_STATUS

TABLE = Path(__file__).parent / "decisions.txt"
STACK_STATUSES = (
    "CREATE_IN_PROGRESS",
    "CREATE_COMPLETE",
    "CREATE_FAILED",
    "ROLLBACK_IN_PROGRESS",
    "ROLLBACK_COMPLETE",
    "ROLLBACK_FAILED",
    "UPDATE_IN_PROGRESS",
    "UPDATE_COMPLETE",
    "UPDATE_FAILED",
    "UPDATE_ROLLBACK_IN_PROGRESS",
    "UPDATE_ROLLBACK_COMPLETE",
    "UPDATE_ROLLBACK_FAILED",
    "DELETE_IN_PROGRESS",
    "DELETE_FAILED",
    "REVIEW_IN_PROGRESS",
)
PROGRESS = {
    "start": Progress(),
    "unknown": Progress(asked="unknown"),
    "accepted": Progress(asked="accepted"),
    "clearing": Progress(clearing="arn:stack"),
    "cleared": Progress(clearing="arn:former"),
    "cleared and unknown": Progress(clearing="arn:former", creating=True, asked="unknown"),
    "created": Progress(creating=True, asked="accepted"),
    "create not accepted": Progress(creating=True),
}
WANTED = {
    "": Wanted("local", "stack/Cluster", "3.16.1"),
    " unchanged": Wanted("local", "stack/Cluster", "3.16.1", unchanged=True),
    " may appear": Wanted("local", "stack/Cluster", "3.16.1", may_appear=True),
    " may replace": Wanted("local", "stack/Cluster", "3.16.1", may_replace=True),
    " other version": Wanted("local", "stack/Cluster", "3.17.0"),
    " other version, may replace": Wanted("local", "stack/Cluster", "3.17.0", may_replace=True),
}
OPERATIONS = {
    "create": (decide.decide_create, [""]),
    "update": (decide.decide_update, [variant for variant in WANTED if variant != " may appear"]),
    "delete": (decide.decide_delete, ["", " may appear"]),
    "gone": (decide.decide_gone, [""]),
}


def view(stack_status: str, owner: str | None = "stack/Cluster") -> ClusterView:
    return ClusterView(
        name="local",
        status=SHOWN_STATUS.get(stack_status, stack_status),
        stack_status=stack_status,
        stack_arn="arn:stack",
        version="3.16.1",
        tags={OWNER_TAG: owner} if owner else {},
    )


VIEWS: dict[str, ClusterView | None] = {
    "no cluster": None,
    "foreign": view("CREATE_COMPLETE", owner="stack/Other"),
    "foreign, no tag": view("DELETE_IN_PROGRESS", owner=None),
    **{status: view(status) for status in STACK_STATUSES},
}


def table() -> Iterator[str]:
    for operation, (decide_operation, variants) in OPERATIONS.items():
        for variant in variants:
            for shown, seen in VIEWS.items():
                rows: dict[str, list[str]] = {}
                for label, progress in PROGRESS.items():
                    decision = decide_operation(seen, progress, WANTED[variant])
                    rows.setdefault(_words(decision), []).append(label)
                for words, labels in rows.items():
                    when = "always" if len(labels) == len(PROGRESS) else ", ".join(labels)
                    if not (variant and words == _words(decide_operation(seen, PROGRESS[labels[0]], WANTED[""]))):
                        yield f"{operation}{variant} | {shown} | {when} | {words}"


def _words(decision: Decision) -> str:
    return " / ".join((type(decision).__name__, *(str(value) for value in astuple(decision))))


def test_every_decision_is_the_reviewed_one() -> None:
    assert list(table()) == TABLE.read_text().splitlines()


@pytest.mark.parametrize(
    ("decision", "why"), [(Wait("busy"), " because busy"), (Update(), " because a note"), (Delete(), " because a note")]
)
def test_past_the_deadline_what_does_not_end_fails(decision: Decision, why: str) -> None:
    def at(now: float, note: str = "a note") -> Decision:
        return decide.decide_poll(decision, now=now, deadline=100, wanted=WANTED[""], seen="there", note=note)

    assert at(99) == decision
    late = at(100)
    assert isinstance(late, Fail) and late.events and late.touched
    assert late.what == (
        "The time limit (TimeoutMinutes) passed while the operation on the cluster local was still going on"
        f"{why}. Last seen: there."
    )
    assert late.todo.startswith("Look at the cluster's state and logs. If it only needs longer, raise the time limit;")
    no_note = at(100, note="")
    assert isinstance(no_note, Fail) and (isinstance(decision, Wait) or "going on. Last" in no_note.what)


@pytest.mark.parametrize("decision", [Succeed("done"), Fail("broken", "repair it")])
def test_past_the_deadline_an_end_is_still_an_end(decision: Decision) -> None:
    late = decide.decide_poll(decision, now=200, deadline=100, wanted=WANTED[""], seen="there", note="")
    assert late == decision


if __name__ == "__main__":
    TABLE.write_text("\n".join((*table(), "")))

"""What to do next, from the cluster's state and the operation's progress. No calls, no clock.

The steps `begin` and `poll` use the same decision, so that a step can be repeated after a crash.
"""

from dataclasses import dataclass

from cluster_resource.api import OWNER_TAG, ClusterView
from cluster_resource.operation import Progress

STEADY = ("CREATE_COMPLETE", "UPDATE_COMPLETE")
# At 20 s a poll: 100 s, and 60 s. on_event stops a cancelled execution, but not the call that it has sent: the API's
# function validates for up to 30 s before the cluster's stack changes, and the client may have repeated the request.
_LOOKS_FOR_A_CLUSTER = 5
_LOOKS_FOR_AN_UPDATE = 3


@dataclass(frozen=True)
class Wanted:
    """What the cluster should be.

    Attributes:
        unchanged: the event leaves its configuration as it was.
        may_appear: of a delete: a cancelled create may have been sent, whose cluster does not show yet.
    """

    name: str
    owner: str
    version: str
    unchanged: bool = False
    may_replace: bool = False
    may_appear: bool = False


@dataclass(frozen=True)
class Wait:
    """Describe the cluster again later; `why` is for the failure report at the time limit."""

    why: str


@dataclass(frozen=True)
class Create:
    pass


@dataclass(frozen=True)
class Update:
    pass


@dataclass(frozen=True)
class Delete:
    """`clearing`: to make room for a create."""

    clearing: bool = False


@dataclass(frozen=True)
class Replace:
    """Delete the cluster and create it again, after a check for running jobs."""

    why: str


@dataclass(frozen=True)
class Verify:
    """Find out by a dry-run update whether the cluster has the wanted configuration."""


@dataclass(frozen=True)
class Succeed:
    why: str


@dataclass(frozen=True)
class Fail:
    """What failed, and what the user can do.

    Attributes:
        events: the report includes the stack's events.
        touched: false if the Delete that follows must not delete a cluster.
    """

    what: str
    todo: str
    events: bool = False
    touched: bool = True


Decision = Wait | Create | Update | Delete | Replace | Verify | Succeed | Fail


def is_ours(view: ClusterView, wanted: Wanted) -> bool:
    return view.owner == wanted.owner


def cluster_may_appear(progress: Progress) -> bool:
    """Whether the create of a cancelled execution, sent before this one started, may still make a cluster."""
    return progress.looks <= _LOOKS_FOR_A_CLUSTER


def update_may_begin(progress: Progress) -> bool:
    """Whether the cancelled update, which this rollback undoes, may still begin. Once this execution has made its own
    call, it waits for the cluster anyway.
    """
    rolls_back = progress.rollback is not False
    return rolls_back and progress.asked == "nothing" and progress.looks <= _LOOKS_FOR_AN_UPDATE


def decide_create(  # noqa: PLR0911 - one return a case
    view: ClusterView | None, progress: Progress, wanted: Wanted
) -> Decision:
    """A Create, or the new cluster of a rename."""
    if view is None:
        return _create_where_none_is(progress, wanted)
    if not is_ours(view, wanted):
        return Fail(
            f"A cluster named {wanted.name} exists already ({view.stack_arn}, {view}), and it does not belong to this"
            f" resource (its tag {OWNER_TAG} is {view.owner or 'absent'}). It was not touched.",
            "Choose another cluster name, or delete that cluster yourself if nobody needs it.",
            touched=False,
        )
    if view.status in ("CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS"):
        return Wait(f"the cluster is {view}")
    if view.status == "CREATE_FAILED":
        return _create_has_failed(view, progress)
    if view.status in ("DELETE_IN_PROGRESS", "DELETE_FAILED"):
        return _create_over_a_deletion(view, progress)
    if view.status in STEADY and progress.asked == "accepted":
        return Succeed(f"The cluster is {view}.")
    # It existed before this execution, or the create had no clear answer: does it have the wanted configuration?
    return Verify()


def _create_where_none_is(progress: Progress, wanted: Wanted) -> Decision:
    if progress.asked == "accepted":
        return Fail(
            f"The cluster {wanted.name} disappeared during this operation: something else deleted it.",
            "Find out who deletes clusters in this account, then deploy again.",
        )
    return Create()


def _create_has_failed(view: ClusterView, progress: Progress) -> Decision:
    if view.stack_status == "ROLLBACK_IN_PROGRESS":
        return Wait(f"the cluster is {view}: its creation failed and is being rolled back")
    if progress.clearing != view.stack_arn and progress.asked == "nothing":
        return Delete(clearing=True)
    if progress.clearing == view.stack_arn:
        return Wait("the remains of an earlier, failed creation are being deleted")
    return Fail(
        f"The creation of the cluster {view.name} failed; it is {view}.",
        "Correct the cause above and deploy again.",
        events=True,
    )


def _create_over_a_deletion(view: ClusterView, progress: Progress) -> Decision:
    if progress.asked == "accepted":
        return Fail(
            f"The cluster {view.name} is {view}: something else deleted it while it was being created.",
            "Find out who deletes clusters in this account, then deploy again.",
            events=True,
        )
    if view.status == "DELETE_IN_PROGRESS":
        return Wait(f"an earlier cluster of this resource is {view}")
    if progress.clearing == view.stack_arn:
        return Fail(
            f"An earlier cluster of this resource, {view.name}, could not be deleted: it is {view}.",
            f"Delete the CloudFormation stack {view.stack_arn} by hand, then deploy again.",
            events=True,
        )
    return Delete(clearing=True)


def decide_update(  # noqa: PLR0911 - one return a case
    view: ClusterView | None, progress: Progress, wanted: Wanted
) -> Decision:
    """An Update that keeps the name.

    If the cluster is gone (deleted from outside, or a failed create), it is created: nothing can be lost, and a failure
    would leave a stack that neither an update nor a rollback can repair.
    """
    if view is None:
        return _create_where_none_is(progress, wanted)
    if not is_ours(view, wanted):
        return Fail(
            f"The cluster {wanted.name} ({view.stack_arn}) does not belong to this resource"
            f" (its tag {OWNER_TAG} is {view.owner or 'absent'}). It was not touched.",
            "Give this resource's cluster another name.",
            touched=False,
        )
    if view.status in ("CREATE_FAILED", "DELETE_IN_PROGRESS", "DELETE_FAILED"):
        return decide_create(view, progress, wanted)
    if view.status in ("CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS"):
        return Wait(f"the cluster is {view}")
    if progress.clearing == view.stack_arn:
        # The requested delete does not show yet, or was not carried out: a second request is harmless.
        return Delete(clearing=True)
    if progress.creating and progress.asked != "nothing":
        return decide_create(view, progress, wanted)
    if view.status not in (*STEADY, "UPDATE_FAILED"):
        return Fail(
            f"The cluster {view.name} cannot be updated: it is {view}.",
            "Replace it: give the cluster another name in the environment file and deploy.",
            events=True,
        )
    if progress.asked == "accepted":
        return _updated(view)
    return _before_the_update(view, wanted)


def _before_the_update(view: ClusterView, wanted: Wanted) -> Decision:
    if view.version != wanted.version:
        what = (
            f"The cluster {view.name} has ParallelCluster {view.version}, and the API has {wanted.version}; an API"
            " updates only clusters of its own version."
        )
        if wanted.may_replace:
            return Replace(what)
        return Fail(
            what,
            f"Point the environment at an API of version {view.version}, or set up a second cluster and"
            " switch (docs/cluster-updates.md), or allow the update to replace it (cluster.updates.replace).",
        )
    if view.stack_status == "UPDATE_ROLLBACK_FAILED":
        failed = _rollback_failed(view)
        return Replace(failed.what) if wanted.may_replace else failed
    if wanted.unchanged and view.status in STEADY:
        return Succeed("The configuration did not change; the cluster was left as it is.")
    return Update()


def _updated(view: ClusterView) -> Decision:
    if view.status == "UPDATE_COMPLETE":
        return Succeed(f"The cluster is {view}.")
    if view.status == "CREATE_COMPLETE":
        return Wait("the update was accepted, but does not show yet")
    if view.stack_status == "UPDATE_ROLLBACK_FAILED":
        return _rollback_failed(view)
    return Fail(
        f"The update of the cluster {view.name} failed; it is {view}"
        + (" and runs with its former configuration." if view.stack_status == "UPDATE_ROLLBACK_COMPLETE" else "."),
        "Correct the cause above and deploy again.",
        events=True,
    )


def _rollback_failed(view: ClusterView) -> Fail:
    return Fail(
        f"The cluster {view.name} is {view}: an update failed, and so did its rollback. It takes no update in this"
        " state.",
        f"Correct the cause above, run `aws cloudformation continue-update-rollback --stack-name {view.stack_arn}`,"
        " wait for UPDATE_ROLLBACK_COMPLETE and deploy again.",
        events=True,
    )


def decide_delete(  # noqa: PLR0911 - one return a case
    view: ClusterView | None, progress: Progress, wanted: Wanted
) -> Decision:
    if view is None:
        if wanted.may_appear and progress.asked == "nothing" and cluster_may_appear(progress):
            return Wait(f"a create that was cancelled may still make the cluster {wanted.name}")
        return Succeed(f"There is no cluster {wanted.name} (any more).")
    if not is_ours(view, wanted):
        return Succeed(
            f"The cluster {wanted.name} that exists does not belong to this resource (its tag {OWNER_TAG} is"
            f" {view.owner or 'absent'}); it was not touched."
        )
    if view.status == "DELETE_IN_PROGRESS":
        return Wait(f"the cluster is {view}")
    if view.status == "DELETE_FAILED" and progress.asked == "accepted":
        return Fail(
            f"The cluster {view.name} could not be deleted: it is {view}.",
            "Remove what blocks the deletion (see the events above), then delete the stack again.",
            events=True,
        )
    if view.status == "UPDATE_IN_PROGRESS" or view.stack_status == "ROLLBACK_IN_PROGRESS":
        # CloudFormation refuses to delete a stack then, and the API would terminate the nodes all the same.
        return Wait(f"the cluster is {view}, and cannot be deleted before that ends")
    return Delete()


def decide_gone(view: ClusterView | None, progress: Progress, wanted: Wanted) -> Decision:
    """The Delete of `Custom::ParallelClusterGone`: wait for the cluster's delete, and repeat a failed one.

    It never starts one: this resource is also deleted when the time limit is lowered, or when the cluster is retained.
    """
    if view is None or not is_ours(view, wanted) or view.status.startswith("DELETE_"):
        return decide_delete(view, progress, wanted)
    if progress.asked != "nothing":
        return Wait(f"the cluster is {view}, and its deletion does not show yet")
    return Succeed(f"The cluster {view.name} is {view} and not being deleted; there is nothing to wait for.")


def decide_poll(decision: Decision, *, now: float, deadline: float, wanted: Wanted, seen: str, note: str) -> Decision:
    """The decision itself before the deadline; after it, a failure unless the operation ends anyway."""
    if now < deadline or isinstance(decision, Succeed | Fail):
        return decision
    why = decision.why if isinstance(decision, Wait) else note
    waited = f" because {why}" if why else ""
    return Fail(
        f"The time limit (TimeoutMinutes) passed while the operation on the cluster {wanted.name} was still going on"
        f"{waited}. Last seen: {seen}.",
        "Look at the cluster's state and logs. If it only needs longer, raise the time limit; then deploy again.",
        events=True,
    )
